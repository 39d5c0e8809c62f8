/// Softmax: y_j = e^(x_j - max) / sum_k e^(x_k - max).
#include "ops/softmax.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/elementwise.h"

namespace heed {

namespace {

/// Number of entries whose exponentials are added in eight chains of kSumBlock.
constexpr Index kSoftmaxBlock = 8 * kSumBlock;

/// x <- e^(x - shift); returns the sum. Not inlined, because it is called in two places.
[[gnu::noinline]] float exponentialsOfBlock(float* x, Index count, v128_t shift) {
  simd::Floats<2> sums(simd::splat(0));
  Index j = 0;
  for (; j + 8 <= count; j += 8) {
    const simd::Floats<2> e = simd::exp(simd::loadFloats<2>(x + j) - shift);
    simd::store(x + j, e);
    sums = sums + e;
  }
  float sum = simd::horizontalSum(wasm_f32x4_add(sums.vectors[0], sums.vectors[1]));
  for (; j < count; ++j) {
    x[j] = wasm_f32x4_extract_lane(simd::exp(simd::Floats<1>(simd::splat(x[j])) - shift).vectors[0], 0);
    sum += x[j];
  }
  return sum;
}

}  // namespace

float exponentials(float* x, Index count) {
  const Range all{0, count};
  return exponentials(x, count, {&all, 1});
}

float exponentials(float* x, Index count, std::span<const Range> positions) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr int kChains = 4;
  const Index whole = count / 4 * 4;

  v128_t maxima[kChains];
  for (v128_t& chain : maxima) chain = simd::splat(kLowest);
  Index j = 0;
  for (; j + 4 * kChains <= count; j += 4 * kChains) {
    HEED_UNROLL
    for (int c = 0; c < kChains; ++c) maxima[c] = simd::maximum(maxima[c], simd::load(x + j + 4 * c));
  }
  for (; j < whole; j += 4) maxima[0] = simd::maximum(maxima[0], simd::load(x + j));
  float highest =
      simd::horizontalMaximum(simd::maximum(simd::maximum(maxima[0], maxima[1]), simd::maximum(maxima[2], maxima[3])));
  for (; j < count; ++j) highest = std::max(highest, x[j]);

  // If all entries are -infinity (or NaN, which maximum() ignores), they are not shifted, so that -infinity gives 0
  // instead of NaN. NaN stays NaN.
  const v128_t shift = simd::splat(highest == kLowest ? 0 : highest);
  double total = 0;
  Index first = 0, size = 0, block = positions.empty() ? 0 : positions.front().begin / kSoftmaxBlock;
  for (const Range& range : positions) {
    for (Index position = range.begin; position < range.end;) {
      if (position / kSoftmaxBlock != block) {
        total += static_cast<double>(exponentialsOfBlock(x + first, size, shift));
        first += std::exchange(size, 0);
        block = position / kSoftmaxBlock;
      }
      const Index next = std::min(range.end, (block + 1) * kSoftmaxBlock);
      size += next - position;
      position = next;
    }
  }
  return static_cast<float>(total + static_cast<double>(exponentialsOfBlock(x + first, count - first, shift)));
}

void softmaxRow(float* x, Index count) {
  const float sum = exponentials(x, count);
  if (sum == 0) return;
  const float scale = 1 / sum;
  Index j = 0;
  for (; j + 4 <= count; j += 4) simd::store(x + j, wasm_f32x4_mul(simd::load(x + j), simd::splat(scale)));
  for (; j < count; ++j) x[j] *= scale;
}

}  // namespace heed
