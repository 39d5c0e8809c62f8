#pragma once

#include "heed/tensor.h"

namespace heed {

/// x <- e^(x - max) over `count` floats in place (the shift keeps them finite); returns their sum, 0 where every entry
/// is -inf: a query that may attend to nothing. NaN stays NaN.
float exponentials(float* x, Index count);

/// x <- e^(x - max) / sum of the same; where every entry is -inf, all zeros.
void softmaxRow(float* x, Index count);

}  // namespace heed
