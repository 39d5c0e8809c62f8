#pragma once

#include "gemm/attention_products.h"
#include "gemm/weights/float32.h"
#include "heed/context.h"

/// Products whose right operand is packed in column panels for one call; see gemm/tile.h for the terms.
namespace heed::train {

/// The most products that are added in one chain: a longer one loses digits, a shorter one adds to the result more
/// often.
constexpr Index kChain = 512;

/// B (K, M), packed.
Panels packPanels(ConstMatrixView b, Arena& arena);
Panels packPanels(const Float32Weight& b, Arena& arena);

/// out (R, number of columns) = factor A B for A (R, K) with R <= kMaxQueries, and the columns of B in `columns`, as in
/// heed::multiplyRowBlock(), which is slower because it takes ranges of k, too. `words` is scratch for A.
void multiplyRowBlock(ConstMatrixView a, const Panels& b, std::span<const Range> columns, float factor, MatrixView out,
                      uint32_t* words);

/// out (N, M) = A B, or out += A B, for A (N, K). Sums run over k in ascending order, in chains of kChain that are
/// added to `out` one after the other.
void multiply(ConstMatrixView a, const Panels& b, MatrixView out, bool adds, Context& context);

/// The same with A^T for A (K, N), and the rows [first, first + K) of B: out += A^T B.
void addTransposedProduct(ConstMatrixView a, const Panels& b, Index first, MatrixView out, Context& context);

}  // namespace heed::train
