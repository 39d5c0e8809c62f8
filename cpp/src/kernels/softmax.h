#pragma once

#include "heed/tensor.h"

namespace heed {

/// x <- e^(x - max) / sum of the same, over `count` floats in place (the shift keeps e^x finite). Where every entry is -inf, all zeros: a query that
/// may attend to nothing.
void softmaxRow(float* x, Index count);

}  // namespace heed
