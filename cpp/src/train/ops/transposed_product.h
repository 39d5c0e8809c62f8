#pragma once

#include "gemm/attention_products.h"
#include "heed/arena.h"

namespace heed::train {

/// out (M, N) += A^T B for A (T, M) and the rows [first, first + T) of B, which packValues() packed. Each sum is one
/// chain over the rows in ascending order that is then added to `out`.
void addTransposedProduct(ConstMatrixView a, const Panels& b, Index first, MatrixView out, Arena& arena);

}  // namespace heed::train
