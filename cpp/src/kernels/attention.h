#pragma once

#include "heed/arena.h"
#include "heed/tensor.h"

/// The two products of attention, Q K^T and A V, in register tiles. Right operands are panels of 8 columns, as
/// PackedWeight's, made anew for each head of each sequence; left ones are strips of a few queries.
/// Letters: S keys, D width of one head, R queries of a strip.
namespace heed {

/// No strip has more queries.
inline constexpr Index kMostStripQueries = 8;
/// How many strips `queries` rows are cut into, as evenly as can be; strip s begins at row s queries / count.
Index queryStrips(Index queries);

/// A right operand (K, M): panel p holds columns 8p to 8p + 7 of its K rows, zeros beyond the last column.
struct Panels {
  const float* data;
  Index depth;    ///< K
  Index columns;  ///< M

  /// Rows from `first` on are left out by starting at them: the K of the product is then that of its left operand.
  const float* panel(Index p, Index first = 0) const { return data + (p * depth + first) * 8; }
  Index count() const { return (columns + 7) / 8; }
};

/// K^T: key (S, D) -> K = D, M = S.
Panels packKeys(ConstMatrixView key, Arena& arena);
/// V: value (S, D) -> K = S, M = D.
Panels packValues(ConstMatrixView value, Arena& arena);

/// Columns [first_column, first_column + out's) of factor a B', where B' are the rows of `right` from `first_row` on,
/// as many as a has columns. `first_column` is a multiple of 8. a (R, K'), R <= kMostStripQueries; `units` has room for
/// R K'. A row's result does not depend on the others of its strip; every sum is one chain over K' in ascending order.
void multiplyStrip(ConstMatrixView a, const Panels& right, Index first_row, Index first_column, float factor,
                   MatrixView out, uint32_t* units);

}  // namespace heed
