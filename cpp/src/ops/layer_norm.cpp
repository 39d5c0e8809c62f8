/// Layer norm of each row: y_j = weight_j (x_j - mean) / sqrt(variance + eps) + bias_j.
/// RMSNorm of each row: y_j = (weight_j + offset) x_j / sqrt(mean of x^2 + eps).
/// Without weights, factors are 1 and biases 0.
#include <algorithm>
#include <cmath>

#include "gemm/range.h"
#include "gemm/simd.h"
#include "heed/norm.h"

namespace heed {
namespace {

constexpr int kNormChains = 4;
/// Number of features that the lanes of all chains add in chains of kSumBlock.
constexpr Index kNormBlock = 4 * kNormChains * kSumBlock;

/// Sum of f(x) over at most kNormBlock floats. Uses several chains, because each addition depends on the previous one
/// of its chain.
template <class F>
float sumOfBlock(const float* x, Index count, const F& f) {
  v128_t sums[kNormChains];
  HEED_UNROLL
  for (v128_t& chain : sums) chain = simd::splat(0);
  Index i = 0;
  for (; i + 4 * kNormChains <= count; i += 4 * kNormChains) {
    HEED_UNROLL
    for (int c = 0; c < kNormChains; ++c) sums[c] = wasm_f32x4_add(sums[c], f(simd::load(x + i + 4 * c)));
  }
  for (; i + 4 <= count; i += 4) sums[0] = wasm_f32x4_add(sums[0], f(simd::load(x + i)));
  float total = simd::horizontalSum(wasm_f32x4_add(wasm_f32x4_add(sums[0], sums[1]), wasm_f32x4_add(sums[2], sums[3])));
  for (; i < count; ++i) total += wasm_f32x4_extract_lane(f(simd::splat(x[i])), 0);
  return total;
}

/// Sum of f(x) over any number of floats.
template <class F>
float sum(const float* x, Index count, const F& f) {
  double total = 0;
  for (Index first = 0; first < count; first += kNormBlock)
    total += static_cast<double>(sumOfBlock(x + first, std::min(kNormBlock, count - first), f));
  return static_cast<float>(total);
}

/// y_j = (x_j - mean) scale (weight_j + offset) + bias_j.
void scaleRow(const float* x, Index width, float mean, float scale, const float* weight, float offset,
              const float* bias, float* output) {
  const v128_t means = simd::splat(mean), scales = simd::splat(scale), offsets = simd::splat(offset);
  Index i = 0;
  for (; i + 4 <= width; i += 4) {
    v128_t y = wasm_f32x4_mul(wasm_f32x4_sub(simd::load(x + i), means), scales);
    if (weight) y = wasm_f32x4_mul(y, wasm_f32x4_add(simd::load(weight + i), offsets));
    if (bias) y = wasm_f32x4_add(y, simd::load(bias + i));
    simd::store(output + i, y);
  }
  for (; i < width; ++i) {
    float y = (x[i] - mean) * scale;
    if (weight) y *= weight[i] + offset;
    if (bias) y += bias[i];
    output[i] = y;
  }
}

}  // namespace

void rmsNorm(ConstMatrixView x, const float* weight, float weight_offset, float eps, MatrixView output) {
  const Index width = x.cols();
  for (Index t = 0; t < x.rows(); ++t) {
    const float* row = x.data() + t * x.outerStride();
    const float squares = sum(row, width, [](v128_t four) { return wasm_f32x4_mul(four, four); });
    const float scale = 1 / std::sqrt(squares / static_cast<float>(width) + eps);
    scaleRow(row, width, 0, scale, weight, weight_offset, nullptr, output.data() + t * output.outerStride());
  }
}

void layerNorm(ConstMatrixView x, const float* weight, const float* bias, float eps, MatrixView output) {
  const Index width = x.cols();
  const auto count = static_cast<float>(width);
  for (Index t = 0; t < x.rows(); ++t) {
    const float* row = x.data() + t * x.outerStride();
    // Two passes, because the mean of squares minus the square of the mean would lose all digits if the mean is large.
    // The mean is computed from differences to the first feature, so that it is exact for constant rows, for which
    // 1 / sqrt(eps) would magnify a rounding error.
    const v128_t first = simd::splat(row[0]);
    const float mean = row[0] + sum(row, width, [first](v128_t four) { return wasm_f32x4_sub(four, first); }) / count;
    const auto square = [means = simd::splat(mean)](v128_t four) {
      const v128_t centred = wasm_f32x4_sub(four, means);
      return wasm_f32x4_mul(centred, centred);
    };
    const float scale = 1 / std::sqrt(sum(row, width, square) / count + eps);
    scaleRow(row, width, mean, scale, weight, 0, bias, output.data() + t * output.outerStride());
  }
}

}  // namespace heed
