#pragma once

#include "gemm/range.h"

/// The rotation of int8 products: signs, then a blockwise Hadamard transform along K. Because H H^T = n I and S S = I,
/// the product of two rows that are both transformed by H S is n times their product. A transformed row has no
/// outliers: an entry that is far larger than the others is spread over its block, so that a quantized row has smaller
/// steps (Ashkboos et al. 2024, QuaRot, https://arxiv.org/abs/2404.00456).
///
/// Strided stages, which add whole vectors, are followed by a transform of the four values of each vector: each becomes
/// the sum of the four minus twice itself, which also spreads their mean evenly. A stage with the stride s replaces
/// x[i], x[i + s] by their sum and their difference, in each segment of 2 s values. The stages have the strides K/2,
/// K/4, ..., K/B. A block consists of the values that are K/B apart. B is the largest power of two up to
/// kMaxRotationBlock whose strides are multiples of 4: 32 for K = 384, 64 for 768 and 1536, 1 (no rotation) for K that
/// are not multiples of 8. With the vectors, 4 B values are mixed: an input of MiniLM's layers then has nearly as small
/// steps as if all of its values were.
///
/// Without the signs, the mean of a block would become one large entry, so that rows of one sign, such as those after
/// GELU, would have larger steps than before. QuaRot's signs are random. These are those of a bent function (Rothaus
/// 1976, https://doi.org/10.1016/0097-3165(76)90024-8), which spread the mean over all entries as evenly as possible:
/// where B has an even number of bits, each entry receives the same share. With j the place of a value in its block,
/// the sign is -1 to the number of pairs of bits of j that are both 1; bits are paired from the highest on.
namespace heed {

inline constexpr Index kMaxRotationBlock = 64;

/// How the rows of an int8 weight are rotated. Folders that earlier builds quantized have rows without signs, with the
/// strided stages only.
enum class Rotation { kNone, kWithoutSigns, kWithSigns };

/// B for rows of K = depth values: the size of the blocks of strided stages.
constexpr Index rotationBlock(Index depth) {
  Index block = 1;
  for (; block < kMaxRotationBlock && depth > 0 && depth % 8 == 0; depth /= 2) block *= 2;
  return block;
}

/// to = H S x, of `depth` values; `to` may be x. No sum is fused whose rounding would differ, so that all builds give
/// the same bits.
void rotate(const float* x, Index depth, Rotation rotation, float* to);

/// The least and the greatest value of a row. `finite` is false if a value of the row before the rotation was infinite
/// or NaN; if sums overflow, high - low is infinite or NaN.
struct RotatedRange {
  float low, high;
  bool finite;
};

/// rotate() with signs, and the range of the result, for B > 1.
RotatedRange rotateWithRange(const float* x, Index depth, float* to);

/// The rotation of a row of weights: to = H S x / (the number of values that H adds), so that products
/// with rotated rows need no factor. `to` may be x.
void rotateWeights(const float* x, Index depth, Rotation rotation, float* to);

/// Reverses rotateWeights(): to = S H x, with the transposed H. `to` may be x.
void rotateBack(const float* x, Index depth, Rotation rotation, float* to);

}  // namespace heed
