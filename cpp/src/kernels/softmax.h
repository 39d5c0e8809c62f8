#pragma once

#include "heed/tensor.h"

namespace heed {

/// x <- e^(x - max) / sum of the same, over `count` floats in place (the shift keeps e^x finite). Where every entry is
/// -inf, a query that may attend to nothing: all zeros, and false. NaN stays NaN.
bool softmaxRow(float* x, Index count);

}  // namespace heed
