#pragma once

#include <string_view>

#include "heed/tensor.h"

namespace heed {

/// phi of a time-distributed layer.
enum class Activation {
  kIdentity,
  kRelu,      ///< max(0, x)
  kGelu,      ///< x Phi(x), exact by erf (Hendrycks, Gimpel 2016, arXiv:1606.08415)
  kGeluTanh,  ///< the same paper's tanh approximation
  kTanh,
  kSigmoid,
  kSilu,  ///< x sigmoid(x)
};

/// Throws Error(kInvalidArgument), listing the names, for a name that is none of them.
Activation activationNamed(std::string_view name);

/// x <- phi(x), element by element.
void activate(MatrixView x, Activation activation);

}  // namespace heed
