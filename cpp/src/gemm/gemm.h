#pragma once

#include <span>

#include "gemm/weights/packed_weight.h"
#include "heed/activation.h"
#include "heed/context.h"

/// Products with packed weights: C = phi(A W^T + bias) + residual.
/// Notation: A (T, K), W (M, K) as PyTorch stores it, C (T, M).
namespace heed {

/// The operations on the elements of A W^T before they are stored.
struct Epilogue {
  const float* bias = nullptr;  ///< (M) or null
  Activation activation = Activation::kIdentity;
  const float* residual = nullptr;  ///< (T, M), rows `residual_stride` floats apart, added after phi; may be C itself
  Index residual_stride = 0;
};

/// One product of the left operand A.
struct Product {
  const PackedWeight* weight;
  Epilogue epilogue;
  MatrixView out;  ///< C
};

/// Computes all `products` of one left operand a (T, K), which is packed once for each LeftForm of the weights. The
/// bits of a row's result depend only on that row and the weight, not on T or the row's position.
void matmul(ConstMatrixView a, std::span<const Product> products, Context& context);
inline void matmul(ConstMatrixView a, const PackedWeight& weight, const Epilogue& epilogue, MatrixView out,
                   Context& context) {
  const Product product{&weight, epilogue, out};
  matmul(a, std::span(&product, 1), context);
}

/// Makes the SIMD128 build use row blocks of 6 rows, which are faster in JavaScriptCore (see block_rows in tile.h).
/// Must not be called during a computation.
void useTallRowBlocks();

}  // namespace heed
