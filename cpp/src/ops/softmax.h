#pragma once

#include "heed/tensor.h"

namespace heed {

/// Softmax without its division: x <- e^(x - max) for `count` floats in place, where subtracting the maximum avoids
/// overflow. Returns the sum, which is 0 if all entries are -infinity (a query whose keys are all masked). NaN stays
/// NaN.
float exponentials(float* x, Index count);

/// Softmax: x <- e^(x - max) / sum, in place; all zeros if all entries are -infinity.
void softmaxRow(float* x, Index count);

}  // namespace heed
