#pragma once

#include <cstdint>
#include <span>

#include "gemm/range.h"
#include "heed/arena.h"

/// The two products of attention, Q K^T and P V. Their right operands are packed for each head of each sequence, their
/// left ones are row blocks of a few queries. See tile.h for row block and column panel.
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

/// out = diag(factors) a B, where B is the part of `right` in `rows` and `columns`, which are ascending: a (R, number
/// of rows) with R <= kMaxQueries, factors (R), out (R, number of columns). Ranges of columns begin at multiples of 8,
/// and all but the last end there; an `out` that is wider than the last range is filled to the end of the panel.
/// `words` is scratch for the elements of a. A row's result does not depend on the other rows of the block; sums
/// run over k in ascending order, in chains that end at the multiples of kChain, wherever the ranges begin, so that
/// leaving out a k for which a is zero changes no bit.
void multiplySelected(ConstMatrixView a, const Panels& right, std::span<const Range> rows,
                      std::span<const Range> columns, const float* factors, MatrixView out, uint32_t* words);

}  // namespace heed
