#pragma once

#include <algorithm>
#include <span>

#include "heed/arena.h"
#include "heed/tensor.h"

/// The two products of attention, Q K^T and A V, in register tiles. Right operands are panels of 8 columns, as
/// PackedWeight's, made anew for each head of each sequence; left ones are strips of a few queries.
/// Letters: S keys that are packed, D width of one head, R queries of a strip.
namespace heed {

/// No strip has more queries.
inline constexpr Index kMostStripQueries = 8;
/// How many strips `queries` rows are cut into, as evenly as can be; see evenPart().
Index queryStrips(Index queries);

/// Consecutive rows, columns or keys [begin, end).
struct Range {
  Index begin, end;
  Index count() const { return end - begin; }
};

/// Rows of a matrix in ascending order: `places`, or where that is null the first `count`.
struct RowList {
  const Index* places;
  Index count;

  Index operator[](Index i) const { return places ? places[i] : i; }
  /// How many of them lie before row `place`.
  Index before(Index place) const {
    return places ? std::lower_bound(places, places + count, place) - places : std::min(place, count);
  }
};

/// A right operand (K, M): panel p holds columns 8p to 8p + 7 of its K rows, zeros beyond the last column.
struct Panels {
  const float* data;
  Index depth;    ///< K
  Index columns;  ///< M
  bool finite;    ///< no infinity and no NaN among them; told of values only

  const float* panel(Index p) const { return data + p * depth * 8; }
};

/// K^T: the chosen rows of key (.., D) -> K = D, M = S.
Panels packKeys(ConstMatrixView key, const RowList& chosen, Arena& arena);
/// V: the chosen rows of value (.., D) -> K = S, M = D.
Panels packValues(ConstMatrixView value, const RowList& chosen, Arena& arena);

/// a B', row r times factors[r], where B' are `rows` and `columns` of `right`, each in ascending order; a (R, rows')
/// with R <= kMostStripQueries, out (R, columns'). Ranges of columns begin at multiples of 8, and all but the last end
/// there; an `out` that is wider than the last is filled to the end of its panel. `units` has room for R rows'. A row's
/// result does not depend on the others of its strip; every sum is one chain over the rows in ascending order, so that
/// leaving out rows that a multiplies by zero changes no bit.
void multiplyStrip(ConstMatrixView a, const Panels& right, std::span<const Range> rows, std::span<const Range> columns,
                   const float* factors, MatrixView out, uint32_t* units);

}  // namespace heed
