#pragma once

#include <cstdint>
#include <limits>

#include "heed/tensor.h"

/// Masks beside one query's scores: a byte for each key, 0 where it is forbidden, or a float that is added to the
/// score, -infinity where the key is forbidden.
namespace heed {

/// The score of a forbidden key, and what an additive mask holds for it.
inline constexpr float kForbidden = -std::numeric_limits<float>::infinity();

/// Whether all of `count` keys are forbidden.
bool allForbidden(const uint8_t* allowed, Index count);
bool allForbidden(const float* added, Index count);

/// scores <- -infinity where a key is forbidden, whatever the score was, NaN too; else scores + added.
void applyMask(const uint8_t* allowed, Index count, float* scores);
void applyMask(const float* added, Index count, float* scores);

}  // namespace heed
