#pragma once

#include <cstddef>
#include <cstdint>

#include "gemm/simd.h"
#include "heed/tensor.h"

/// The inner loop of every matrix product C = A B, and the terms that all files of this folder use.
///
/// Notation: A (T, K), the left operand; B (K, M), the right operand, for a layer the transpose of its weight W (M, K);
/// C (T, M).
///
/// - k-step: the consecutive values of k that the inner loop processes at once: 1 in fp32, 4 or 8 in int8.
/// - Word: 4 bytes of a row of A: one float, four bytes or two 16-bit integers. A row contributes Step::kWords words to
///   a k-step: 4 for WideDotStep, otherwise 1.
/// - Row block: up to block_rows consecutive rows of A, interleaved, so that the loop advances one pointer. Words are
///   stored in step groups of Step::kGroup k-steps. In a block of R rows, word n of row r is at left[kGroup r + n]; the
///   next group starts kGroup R words later.
/// - Column panel: 8 consecutive columns of B; the last panel is padded with zeros. A k-step takes Step::kBytes bytes:
///   its values of column 0, then of column 1, and so on.
/// - Register tile: R rows times P panels of C, whose sums stay in registers while the loop runs over k.
/// - Chunk (chunk.h): up to kChunkRows rows of A. A chunk is multiplied by a whole weight before the next is packed.
///
/// Each element of C is summed in its own lane in ascending k (fp32: in chains of kSumBlock, see range.h), so its bits
/// do not depend on the tile's shape or the element's position.
namespace heed {

/// Rows of the tallest row block. x86 has 16 vector registers, and V8 reserves one: 6 x 8 sums (12 registers), half a
/// k-step of a panel and a broadcast word fit into 15.
inline constexpr int kBlockRows = 6;

/// Maximum rows of a row block: kBlockRows or 5. Without fused multiply-add each product needs another register, and 5
/// rows are faster in V8 (49 instead of 29 GFLOP/s): the default of the SIMD128 build. JavaScriptCore uses all
/// registers, and 6 rows are faster there (useTallRowBlocks() in gemm.h).
extern Index block_rows;

/// T rows divided into as few row blocks as possible. Their heights differ by at most one (8 rows are 4 + 4, not 6 +
/// 2), because short row blocks leave the multipliers idle.
struct RowBlocks {
  Index rows;
  Index count;

  explicit RowBlocks(Index t) : rows(t), count((t + block_rows - 1) / block_rows) {}
  /// First row of block i; block `count` begins at T.
  Index begin(Index i) const { return evenPart(rows, count, i); }
  Index height(Index i) const { return begin(i + 1) - begin(i); }
};

/// Interleaves `count` rows of K floats that are `stride` floats apart: value k of row r goes to to[k height + r].
void interleaveRows(const float* rows, Index stride, Index count, Index depth, Index height, uint32_t* to);

/// Packs fp32 rows: `words` (T K); row block i begins at begin(i) K.
void packRows(ConstMatrixView a, const RowBlocks& blocks, uint32_t* words);

/// The k-step of fp32. loadHalf() loads 4 of a panel's 8 columns; add() adds the products of a broadcast word with
/// these columns to four sums.
struct FloatStep {
  static constexpr Index kBytes = 32, kWords = 1;
  static constexpr int kGroup = 1;
  static v128_t loadHalf(const std::byte* step, int which) { return simd::load(step + 16 * which); }
  static v128_t add(v128_t sums, v128_t word, v128_t columns) { return simd::multiplyAdd(word, columns, sums); }
};

/// Adds one step group to a register tile. A Step without add() provides its own overload.
template <int R, int P, class Step>
  requires requires(const Step step, v128_t x) { step.add(x, x, x); }
inline void addGroup(const Step& step, const uint32_t* left, const std::byte* right, Index panel_bytes,
                     v128_t (&sums)[R][2 * P]) {
#pragma clang loop unroll(disable)
  for (int n = 0; n < Step::kGroup; ++n) {
    v128_t columns[2 * P];
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) columns[i] = step.loadHalf(right + n * Step::kBytes + i / 2 * panel_bytes, i % 2);
    HEED_UNROLL
    for (int r = 0; r < R; ++r) {
      const v128_t word = simd::loadSplat(left + Step::kGroup * r + n);
      HEED_UNROLL
      for (int i = 0; i < 2 * P; ++i) sums[r][i] = step.add(sums[r][i], word, columns[i]);
    }
  }
}

/// Adds `steps` k-steps (whole groups) of a row block of R rows times P panels, which are `panel_bytes` apart. A Step
/// without kGroup provides its own overload.
template <int R, int P, class Step>
  requires requires { Step::kGroup; }
inline void accumulate(const Step& step, const uint32_t* left, const std::byte* right, Index panel_bytes, Index steps,
                       v128_t (&sums)[R][2 * P]) {
#pragma clang loop unroll(disable)
  for (Index s = 0; s < steps; s += Step::kGroup) {
    addGroup<R, P>(step, left, right, panel_bytes, sums);
    left += Step::kGroup * R;
    right += Step::kGroup * Step::kBytes;
  }
}

}  // namespace heed
