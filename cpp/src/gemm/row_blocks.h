#pragma once

#include <cstdint>

#include "gemm/tile.h"

/// The left operand in the form that the inner loop reads; see tile.h for the terms and the notation.
namespace heed {

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

}  // namespace heed
