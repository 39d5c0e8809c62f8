#pragma once

#include "gemm/attention_products.h"
#include "heed/arena.h"

/// Products whose right operand is packed in column panels for one call; see gemm/tile.h for the terms.
namespace heed::train {

/// B (K, M), packed.
Panels packPanels(ConstMatrixView b, Arena& arena);

/// out (R, number of columns) = factor A B for A (R, K) with R <= kMaxQueries, and the columns of B in `columns`, as in
/// heed::multiplyRowBlock(), which is slower because it takes ranges of k, too. `words` is scratch for A.
void multiplyRowBlock(ConstMatrixView a, const Panels& b, std::span<const Range> columns, float factor, MatrixView out,
                      uint32_t* words);

/// out (N, M) += A^T B for A (T, N) and the rows [first, first + T) of B. Sums run over the rows in ascending order, in
/// groups that are added to `out` one after the other.
void addTransposedProduct(ConstMatrixView a, const Panels& b, Index first, MatrixView out, Arena& arena);

}  // namespace heed::train
