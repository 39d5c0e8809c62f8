#pragma once

#include <cstdint>
#include <span>

#include "gemm/range.h"
#include "heed/arena.h"

/// The two products of attention, Q K^T and P V. Right operands are packed once per head and sequence; left operands
/// are row blocks of a few queries. See tile.h for row block and column panel.
/// Notation: S packed keys, D width of one head, R rows of a row block.
namespace heed {

/// Maximum number of rows of a row block.
inline constexpr Index kMaxQueries = 8;
/// Number of row blocks into which `queries` rows are divided, as evenly as possible; see evenPart().
Index queryBlocks(Index queries);

/// A right operand (K, M) in column panels of 8 K floats.
struct Panels {
  const float* data;
  Index depth;    ///< K
  Index columns;  ///< M
  bool finite;    ///< values only: whether they contain no infinity or NaN
};

/// K^T: the rows `keys` of key (.., D); K = D, M = S.
Panels packKeys(ConstMatrixView key, const RowList& keys, Arena& arena);
/// V: the rows `keys` of value (.., D); K = S, M = D.
Panels packValues(ConstMatrixView value, const RowList& keys, Arena& arena);

/// out = diag(factors) a B, where B consists of the given `rows` and `columns` of `right`, ascending ranges: a (R,
/// number of rows) with R <= kMaxQueries, factors (R), out (R, number of columns). Ranges of columns begin and, except
/// for the last, end at multiples of 8; if `out` is wider than the selected columns, the last panel is written in full.
/// `words` is scratch for the elements of a. A row's result does not depend on the other rows of the block. Sums run
/// over k in ascending order, in chains that end at multiples of kSumBlock, wherever the ranges begin; omitting a k at
/// which a is zero therefore does not change a bit.
void multiplySelected(ConstMatrixView a, const Panels& right, std::span<const Range> rows,
                      std::span<const Range> columns, const float* factors, MatrixView out, uint32_t* words);

}  // namespace heed
