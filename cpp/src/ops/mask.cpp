#include "ops/mask.h"

#include <algorithm>
#include <cmath>

#include "ops/vectors.h"

namespace heed {

bool allForbidden(const float* added, Index count) {
  return std::all_of(added, added + count, [](float a) { return a == kForbidden; });
}

bool hasNaN(const float* added, Index count) {
  return std::any_of(added, added + count, [](float a) { return std::isnan(a); });
}

void applyMask(const float* added, Index count, float* scores) {
  const auto apply = [](v128_t score, v128_t entry) {
    const v128_t forbidden = wasm_f32x4_eq(entry, simd::splat(kForbidden));
    return simd::select(forbidden, entry, wasm_f32x4_add(score, entry));
  };
  transform<2>(
      count, scores, [&](const auto& score, const auto& entry) { return each(apply, score, entry); }, scores, added);
}

}  // namespace heed
