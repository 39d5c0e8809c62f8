#pragma once

#include <cstdint>
#include <limits>

#include "heed/tensor.h"

/// Masks for the scores of one query. Boolean masks have one byte per key, 0 if the key is forbidden. Additive masks
/// have one float per key, which is added to the score; -infinity forbids the key.
namespace heed {

/// The score of a forbidden key, and its entry in an additive mask.
inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();

/// Whether all `count` keys are forbidden.
bool allForbidden(const uint8_t* allowed, Index count);
bool allForbidden(const float* added, Index count);

bool hasNaN(const float* added, Index count);

/// Sets scores of forbidden keys to -infinity, even if they are NaN, and adds `added` to the others.
void applyMask(const uint8_t* allowed, Index count, float* scores);
void applyMask(const float* added, Index count, float* scores);

}  // namespace heed
