#pragma once

#include "heed/tensor.h"
#include "kernels/tile.h"

/// The left operand of a product in the form that tile() reads.
/// Letters: T rows, K values each.
namespace heed {

/// T rows cut into as few strips as can be, of heights that differ by one at most: 8 rows are 4 + 4, never 6 + 2, as
/// low strips keep the multipliers waiting.
struct Strips {
  Index rows;
  Index count;

  explicit Strips(Index rows) : rows(rows), count((rows + kStripRows - 1) / kStripRows) {}
  /// First row of strip i; strip count's is T.
  Index begin(Index i) const { return evenPart(rows, count, i); }
};

/// How a row was quantized: x = scale q + offset, q in 0..127.
struct RowQuantization {
  float scale;
  float offset;
};

/// `count` float rows of K values, `stride` apart, interleaved: value k of row r goes to to[k height + r].
void interleaveRows(const float* rows, Index stride, Index count, Index depth, Index height, uint32_t* to);
/// One row's units to every `height`-th place.
void interleave(const void* row, Index count, Index height, uint32_t* to);

/// units (T K): strip i, whose height is R, begins at begin(i) K and holds R floats per step.
void packStrips(ConstMatrixView a, const Strips& strips, uint32_t* units);

/// Each row by itself onto 0..127 between its least and its greatest value: 7 bits, as the relaxed dot takes no more.
/// With K' = int8Steps(K), `units` (T K'): strip i begins at begin(i) K', and its rows take turns, kInt8Together values
/// each. `rows` (T). A row that holds an infinity or a NaN gets a scale of NaN.
void quantizeStrips(ConstMatrixView a, const Strips& strips, uint32_t* units, RowQuantization* rows);

}  // namespace heed
