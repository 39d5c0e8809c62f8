#pragma once

#include "heed/activation.h"

namespace heed {

/// phi of `count` floats that lie together, in place.
void activate(float* x, Index count, Activation activation);

}  // namespace heed
