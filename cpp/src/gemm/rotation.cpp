#include "gemm/rotation.h"

#include <algorithm>
#include <limits>

#include "gemm/simd.h"

namespace heed {
namespace {

/// Ignores the transformed values.
struct NoVisitor {
  template <int R>
  void add(const v128_t (&)[R]) const {}
};

/// Finds the least and the greatest of the transformed values.
struct RangeVisitor {
  v128_t least, greatest;

  template <int R>
  void add(const v128_t (&x)[R]) {
    v128_t low[R], high[R];
    HEED_UNROLL
    for (int j = 0; j < R; ++j) low[j] = high[j] = x[j];
    HEED_UNROLL
    for (int half = R / 2; half > 0; half /= 2) {
      HEED_UNROLL
      for (int j = 0; j < half; ++j) {
        low[j] = simd::minimum(low[j], low[j + half]);
        high[j] = simd::maximum(high[j], high[j + half]);
      }
    }
    least = simd::minimum(least, low[0]);
    greatest = simd::maximum(greatest, high[0]);
  }
};

/// log2(R) stages of the transform, in each segment of `length` values: those with the strides length/2 to length/R.
template <int R, class Visitor>
void runStages(const float* x, Index depth, Index length, float* to, Visitor& visitor) {
  const Index stride = length / R;
  for (Index begin = 0; begin < depth; begin += length) {
    for (Index i = begin; i < begin + stride; i += 4) {
      v128_t values[R];
      HEED_UNROLL
      for (int j = 0; j < R; ++j) values[j] = simd::load(x + i + j * stride);
      HEED_UNROLL
      for (int half = R / 2; half > 0; half /= 2) {
        HEED_UNROLL
        for (int j = 0; j < R; ++j) {
          if (j & half) continue;
          const v128_t a = values[j], b = values[j + half];
          values[j] = wasm_f32x4_add(a, b);
          values[j + half] = wasm_f32x4_sub(a, b);
        }
      }
      visitor.add(values);
      HEED_UNROLL
      for (int j = 0; j < R; ++j) simd::store(to + i + j * stride, values[j]);
    }
  }
}

/// Up to three stages at once, which the vector registers can hold; the visitor receives the results of the last ones.
template <class Visitor>
void transformBlocks(const float* x, Index depth, float* to, Visitor& visitor) {
  const NoVisitor none;
  Index block = rotationBlock(depth), length = depth;
  for (; block > 8; block /= 8, length /= 8, x = to) runStages<8>(x, depth, length, to, none);
  if (block == 8) return runStages<8>(x, depth, length, to, visitor);
  if (block == 4) return runStages<4>(x, depth, length, to, visitor);
  if (block == 2) return runStages<2>(x, depth, length, to, visitor);
}

}  // namespace

void rotate(const float* x, Index depth, float* to) {
  if (rotationBlock(depth) == 1) {
    std::copy_n(x, depth, to);
    return;
  }
  const NoVisitor none;
  transformBlocks(x, depth, to, none);
}

RotatedRange rotateWithRange(const float* x, Index depth, float* to) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  RangeVisitor range{simd::splat(kInfinity), simd::splat(-kInfinity)};
  transformBlocks(x, depth, to, range);
  // The first values are the sums of their blocks, which are infinite or NaN if any value of the block is.
  v128_t not_finite = simd::splat(0);
  for (Index k = 0; k < depth / rotationBlock(depth); k += 4) {
    const v128_t sums = simd::load(to + k);
    not_finite = wasm_v128_or(not_finite, wasm_f32x4_sub(sums, sums));
  }
  return {simd::horizontalMinimum(range.least), simd::horizontalMaximum(range.greatest),
          !wasm_v128_any_true(not_finite)};
}

void rotateWeights(const float* x, Index depth, float* to) {
  const float factor = 1 / static_cast<float>(rotationBlock(depth));
  for (Index k = 0; k < depth; ++k) to[k] = factor * x[k];  // first, so that sums do not overflow
  rotate(to, depth, to);
}

}  // namespace heed
