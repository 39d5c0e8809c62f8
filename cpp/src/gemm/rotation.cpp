#include "gemm/rotation.h"

#include <algorithm>
#include <bit>
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

/// Which signs some stages apply. A sign costs nothing: a stage adds where it would subtract, and the reverse. Stages
/// take the bits of j, the place of a value in its block, from the highest on; each applies the signs of the pair whose
/// higher bit it takes, while the lower one is still a bit of the place.
enum class StageSigns {
  kNone,
  kFirst,       // the highest bits
  kFirstUpper,  // the same, for values whose next lower bit, which pairs with the lowest of these, is 1
  kSecond,      // the three bits after the three highest
};

/// Whether the stage that adds values[j + half] to values[j] subtracts it instead.
template <int R>
constexpr bool isNegative(StageSigns signs, int half, int j) {
  switch (signs) {
    case StageSigns::kNone:
      return false;
    case StageSigns::kFirst:
      return half == R / 2 && (j & R / 4) != 0;
    case StageSigns::kFirstUpper:
      return half == 1 || isNegative<R>(StageSigns::kFirst, half, j);
    case StageSigns::kSecond:
      return R == 8 && half == 2 && (j & 1) != 0;
  }
}

/// Replaces each of four values by the sum of all four minus twice itself. Twice a value is exact, so that it makes no
/// difference whether the last step is fused.
v128_t mixLanes(v128_t x) {
  const v128_t pairs = wasm_f32x4_add(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
  const v128_t sum = wasm_f32x4_add(pairs, wasm_i32x4_shuffle(pairs, pairs, 1, 0, 3, 2));
  return simd::multiplyAdd(simd::splat(-2), x, sum);
}

/// log2(R) stages of the transform of the values i + j * stride, for i in [begin, end). `kIsLast`: then mixes lanes.
template <int R, StageSigns kSigns, bool kIsLast = false, class Visitor>
void runStages(const float* x, Index begin, Index end, Index stride, float* to, Visitor& visitor) {
  for (Index i = begin; i < end; i += 4) {
    v128_t values[R];
    HEED_UNROLL
    for (int j = 0; j < R; ++j) values[j] = simd::load(x + i + j * stride);
    HEED_UNROLL
    for (int half = R / 2; half > 0; half /= 2) {
      HEED_UNROLL
      for (int j = 0; j < R; ++j) {
        if (j & half) continue;
        const v128_t a = values[j], b = values[j + half], sum = wasm_f32x4_add(a, b), difference = wasm_f32x4_sub(a, b);
        const bool is_negative = isNegative<R>(kSigns, half, j);
        values[j] = is_negative ? difference : sum;
        values[j + half] = is_negative ? sum : difference;
      }
    }
    if constexpr (kIsLast) {
      HEED_UNROLL
      for (int j = 0; j < R; ++j) values[j] = mixLanes(values[j]);
    }
    visitor.add(values);
    HEED_UNROLL
    for (int j = 0; j < R; ++j) simd::store(to + i + j * stride, values[j]);
  }
}

/// The same in each segment of `length` values: the stages with the strides length/2 to length/R.
template <int R, StageSigns kSigns, bool kIsLast, class Visitor>
void transformSegments(const float* x, Index depth, Index length, float* to, Visitor& visitor) {
  const Index stride = length / R;
  for (Index begin = 0; begin < depth; begin += length)
    runStages<R, kSigns, kIsLast>(x, begin, begin + stride, stride, to, visitor);
}

/// Signs and the whole transform, up to three stages at once, which the vector registers can hold; the visitor receives
/// the results. For B > 1.
void transformWithSigns(const float* x, Index depth, float* to, RangeVisitor& visitor) {
  static_assert(kMaxRotationBlock == 64);
  using enum StageSigns;
  const Index block = rotationBlock(depth), stride = depth / 8, middle = stride / 2;
  if (block == 2) return transformSegments<2, kNone, true>(x, depth, depth, to, visitor);
  if (block == 4) return transformSegments<4, kFirst, true>(x, depth, depth, to, visitor);
  if (block == 8) return transformSegments<8, kFirst, true>(x, depth, depth, to, visitor);
  const NoVisitor none;
  runStages<8, kFirst>(x, 0, middle, stride, to, none);
  runStages<8, kFirstUpper>(x, middle, stride, stride, to, none);
  if (block == 16) return transformSegments<2, kNone, true>(to, depth, stride, to, visitor);
  if (block == 32) return transformSegments<4, kNone, true>(to, depth, stride, to, visitor);
  transformSegments<8, kSecond, true>(to, depth, stride, to, visitor);
}

/// All stages, one at a time: only for rows of files, and for activations where such rows have no signs.
void transformWithoutSigns(const float* x, Index depth, float* to) {
  const NoVisitor none;
  for (Index block = rotationBlock(depth), length = depth; block > 1; block /= 2, length /= 2, x = to)
    transformSegments<2, StageSigns::kNone, false>(x, depth, length, to, none);
}

/// Whether the sign of the value at place j of a block of B = 2^bits values is -1.
bool hasNegativeSign(Index j, int bits) {
  int pairs = 0;
  for (int high = bits - 1; high > 0; high -= 2) pairs += (j >> high) & (j >> (high - 1)) & 1;
  return pairs % 2 != 0;
}

}  // namespace

void rotate(const float* x, Index depth, Rotation rotation, float* to) {
  if (rotation == Rotation::kNone || rotationBlock(depth) == 1) {
    if (to != x) std::copy_n(x, depth, to);
    return;
  }
  if (rotation == Rotation::kWithoutSigns) return transformWithoutSigns(x, depth, to);
  RangeVisitor range{simd::splat(0), simd::splat(0)};
  transformWithSigns(x, depth, to, range);
}

RotatedRange rotateWithRange(const float* x, Index depth, float* to) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  RangeVisitor range{simd::splat(kInfinity), simd::splat(-kInfinity)};
  transformWithSigns(x, depth, to, range);
  // The first values are sums that all values are part of, up to signs, and are infinite or NaN if any of these is.
  v128_t not_finite = simd::splat(0);
  for (Index k = 0; k < depth / rotationBlock(depth); k += 4) {
    const v128_t sums = simd::load(to + k);
    not_finite = wasm_v128_or(not_finite, wasm_f32x4_sub(sums, sums));
  }
  return {simd::horizontalMinimum(range.least), simd::horizontalMaximum(range.greatest),
          !wasm_v128_any_true(not_finite)};
}

void rotateWeights(const float* x, Index depth, Rotation rotation, float* to) {
  const Index block = rotation == Rotation::kNone ? 1 : rotationBlock(depth);
  const Index size = rotation == Rotation::kWithSigns && block > 1 ? 4 * block : block;
  const float factor = 1 / static_cast<float>(size);
  // First, so that sums do not overflow.
  Index k = 0;
  for (; k + 4 <= depth; k += 4) simd::store(to + k, wasm_f32x4_mul(simd::splat(factor), simd::load(x + k)));
  for (; k < depth; ++k) to[k] = factor * x[k];
  rotate(to, depth, rotation, to);
}

void rotateBack(const float* x, Index depth, Rotation rotation, float* to) {
  rotate(x, depth, rotation == Rotation::kWithSigns ? Rotation::kWithoutSigns : rotation, to);
  if (rotation != Rotation::kWithSigns || rotationBlock(depth) == 1) return;
  for (Index k = 0; k < depth; k += 4) simd::store(to + k, mixLanes(simd::load(to + k)));
  const Index block = rotationBlock(depth), apart = depth / block;
  const int bits = std::countr_zero(static_cast<unsigned>(block));
  for (Index j = 0; j < block; ++j, to += apart) {
    if (!hasNegativeSign(j, bits)) continue;
    for (Index k = 0; k < apart; ++k) to[k] = -to[k];
  }
}

}  // namespace heed
