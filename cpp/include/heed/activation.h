#pragma once

#include <string_view>

#include "heed/tensor.h"

namespace heed {

/// An elementwise nonlinearity phi. All are defined for every float: at -infinity and infinity they return their limits
/// to within their error, and NaN gives NaN. The error against double precision is at most 1e-6 + 4e-7 |phi(x)|; the
/// error of the gradient in training, for dY = 1, is at most 2e-6.
enum class Activation {
  kIdentity,
  kRelu,      ///< max(0, x)
  kGelu,      ///< x Phi(x), computed with erf (Hendrycks, Gimpel 2016, arXiv:1606.08415)
  kGeluTanh,  ///< GELU's tanh approximation (Hendrycks, Gimpel 2016)
  kTanh,
  kSigmoid,
  kSilu,       ///< x sigmoid(x)
  kQuickGelu,  ///< x sigmoid(1.702 x), GELU's sigmoid approximation (Hendrycks, Gimpel 2016; CLIP)
  kGelu10,     ///< min(GELU(x), 10) (Wu et al. 2020, arXiv:2004.09602)
  kRelu6,      ///< min(max(0, x), 6)
  kRelu2,      ///< max(0, x)^2 (So et al. 2021, arXiv:2109.08668)
  kLeakyRelu,  ///< x for x > 0, otherwise 0.01 x
  kHardswish,  ///< x min(max(0, x + 3), 6) / 6 (Howard et al. 2019, arXiv:1905.02244)
  kMish,       ///< x tanh(log(1 + e^x)) (Misra 2019, arXiv:1908.08681)
  kLaplace,    ///< (1 + erf((x - 0.707107) / (0.282095 sqrt(2)))) / 2 (Ma et al. 2022, arXiv:2209.10655)
};

/// The activation with the given lower-case name ("relu", "gelu_tanh", ...). Throws kInvalidArgument for an unknown
/// name; the message lists the names.
Activation activationNamed(std::string_view name);

/// x <- phi(x), elementwise, for a matrix or `count` contiguous floats.
void activate(MatrixView x, Activation activation);
void activate(float* x, Index count, Activation activation);

}  // namespace heed
