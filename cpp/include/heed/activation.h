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
};

/// The activation with the given lower-case name ("relu", "gelu_tanh", ...). Throws kInvalidArgument for an unknown
/// name; the message lists the names.
Activation activationNamed(std::string_view name);

/// x <- phi(x), elementwise, for a matrix or `count` contiguous floats.
void activate(MatrixView x, Activation activation);
void activate(float* x, Index count, Activation activation);

}  // namespace heed
