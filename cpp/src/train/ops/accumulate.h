#pragma once

#include "heed/tensor.h"

namespace heed::train {

/// out += factor x for `count` elements. The product is rounded before the sum.
void accumulate(Index count, const float* x, float* out, float factor = 1);

}  // namespace heed::train
