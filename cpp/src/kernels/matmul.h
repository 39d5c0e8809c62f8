#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/activation.h"
#include "heed/arena.h"
#include "heed/module.h"
#include "heed/tensor.h"

/// Products with packed right operands: C = epilogue(A W^T), W (out, in) as PyTorch stores it.
/// Letters: T rows of A and C, K = in, M = out.
namespace heed {

/// A weight (M, K), stored in the one form in which it is multiplied.
/// fp32: panels of 8 output rows, k-major, so that the inner loop walks one pointer. int8: the same idea with groups of 4 k for the dot instruction, a scale per output row and the
/// correction that the activations' zero point needs.
class PackedWeight {
 public:
  PackedWeight() = default;
  PackedWeight(Index out, Index in, Precision precision);

  Index out() const { return out_; }
  Index in() const { return in_; }
  Precision precision() const { return precision_; }

  /// Copies output rows [first, first + count) in; quantizes them where the store is int8 (symmetric, -127..127 per row).
  void write(Index first, Index count, const float* rows);
  /// Rows that are int8 already; exact in an int8 store, widened in an fp32 one.
  void writeInt8(Index first, Index count, const signed char* rows, const float* scales);
  /// Copies rows out; exact for fp32, dequantized for int8.
  void read(Index first, Index count, float* rows) const;

 private:
  friend struct PackedWeightAccess;
  Index out_ = 0;
  Index in_ = 0;
  Precision precision_ = Precision::kFloat32;
  std::vector<float> values_;         // fp32: (M, K)
  std::vector<signed char> bytes_;    // int8: (M, K)
  std::vector<float> scales_;         // int8: (M)
  std::vector<int32_t> sums_;         // int8: (M), each row's sum of bytes
};

/// What happens to a tile on its way to memory: C = phi(A W^T + bias) + residual.
struct Epilogue {
  const float* bias = nullptr;  ///< (M) or null
  Activation activation = Activation::kIdentity;
  const float* residual = nullptr;  ///< (T, M), rows `residual_stride` floats apart, added after phi; may be C itself
  Index residual_stride = 0;
};

/// One product of a left operand.
struct Product {
  const PackedWeight* weight;
  Epilogue epilogue;
  MatrixView out;  ///< (T, M)
};

/// All `products` of one left operand a (T, K), which is packed (fp32) or quantized (int8) once. A row's result depends on that row and the weight
/// alone, bit for bit, whatever T is and wherever the row stands.
void matmul(ConstMatrixView a, std::span<const Product> products, Arena& arena);
inline void matmul(ConstMatrixView a, const PackedWeight& weight, const Epilogue& epilogue, MatrixView out, Arena& arena) {
  const Product product{&weight, epilogue, out};
  matmul(a, std::span(&product, 1), arena);
}

}  // namespace heed
