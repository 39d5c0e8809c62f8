#include "kernels/softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/elementwise.h"

namespace heed {

bool softmaxRow(float* x, Index count) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const Index whole = count / 4 * 4;

  v128_t maxima = simd::splat(kLowest);
  for (Index j = 0; j < whole; j += 4) maxima = simd::maximum(maxima, simd::load(x + j));
  float highest = simd::horizontalMaximum(maxima);
  for (Index j = whole; j < count; ++j) highest = std::max(highest, x[j]);

  // Only -inf, or NaN, which no maximum sees: left unshifted, the former sum to 0 and the latter to NaN.
  const v128_t shift = simd::splat(highest == kLowest ? 0 : highest);
  v128_t sums = simd::splat(0);
  for (Index j = 0; j < whole; j += 4) {
    const v128_t e = simd::exp(wasm_f32x4_sub(simd::load(x + j), shift));
    simd::store(x + j, e);
    sums = wasm_f32x4_add(sums, e);
  }
  float sum = simd::horizontalSum(sums);
  for (Index j = whole; j < count; ++j) {
    x[j] = wasm_f32x4_extract_lane(simd::exp(wasm_f32x4_sub(simd::splat(x[j]), shift)), 0);
    sum += x[j];
  }
  if (sum == 0) return false;

  const float scale = 1 / sum;
  for (Index j = 0; j < whole; j += 4) simd::store(x + j, wasm_f32x4_mul(simd::load(x + j), simd::splat(scale)));
  for (Index j = whole; j < count; ++j) x[j] *= scale;
  return true;
}

}  // namespace heed
