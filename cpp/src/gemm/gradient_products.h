#pragma once

#include "gemm/attention_products.h"
#include "gemm/weights/float32.h"
#include "heed/context.h"

/// The matrix products of backward passes. Right operands are packed in column panels on every call; see gemm/tile.h
/// for the terms. Only builds with training link them.
/// Notation: X (T, K), W (M, K), Y = X W^T (T, M), dY its gradient.
namespace heed {

/// out (T, K) = dY W + residual. `residual` is null or `out` itself. A packed weight must be fp32.
void inputGradient(ConstMatrixView gradient, const PackedWeight& weight, MatrixView out,
                   const ConstMatrixView* residual, Context& context);
void inputGradient(ConstMatrixView gradient, ConstMatrixView weight, MatrixView out, const ConstMatrixView* residual,
                   Context& context);
/// out (M, K) += dY^T X.
void addWeightGradient(ConstMatrixView gradient, ConstMatrixView x, MatrixView out, Context& context);

/// Packs B (K, M).
Panels packPanels(ConstMatrixView b, Arena& arena);
Panels packPanels(const Float32Weight& b, Arena& arena);

/// out (R, number of columns) = factor A B for A (R, K) with R <= kMaxQueries and the selected `columns` of B. Faster
/// than multiplySelected(), which also selects ranges of k. `words` is scratch for A.
void multiplyColumns(ConstMatrixView a, const Panels& b, std::span<const Range> columns, float factor, MatrixView out,
                     uint32_t* words);

/// out (N, M) = A B or, if `adds`, out += A B, for A (N, K). Sums run over k in ascending order, in chains of kSumBlock
/// that are added to `out` one after the other.
void multiplyPanels(ConstMatrixView a, const Panels& b, MatrixView out, bool adds, Context& context);

/// out (N, M) += A^T B for A (K, N) and rows [first, first + K) of `b`. Sums run as in multiplyPanels().
void addTransposedProduct(ConstMatrixView a, const Panels& b, Index first, MatrixView out, Context& context);

}  // namespace heed
