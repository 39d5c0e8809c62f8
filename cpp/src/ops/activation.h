#pragma once

#include "heed/activation.h"

namespace heed {

/// Applies phi to `count` contiguous floats in place.
void activate(float* x, Index count, Activation activation);

}  // namespace heed
