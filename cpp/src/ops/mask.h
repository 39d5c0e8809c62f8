#pragma once

#include <limits>

#include "heed/tensor.h"

/// Additive masks for the scores of one query, with one float per key, which is added to the score; -infinity forbids
/// the key. Boolean masks are converted to these.
namespace heed {

/// The score of a forbidden key, and its entry in an additive mask.
inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();

/// Whether all `count` keys are forbidden.
bool allForbidden(const float* added, Index count);

bool hasNaN(const float* added, Index count);

/// Adds the mask to the scores; sets those of forbidden keys to -infinity, even if they are NaN.
void applyMask(const float* added, Index count, float* scores);

}  // namespace heed
