#pragma once

#include <algorithm>
#include <cstddef>
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

/// A weight (M, K), stored in the one form in which it is multiplied: panels of 8 output rows, the last one filled up
/// with zeros. A panel is a sequence of steps, so that the inner loop walks one pointer; a step holds, for each of the
/// 8 rows in turn, the next k (fp32) or the next kInt8Group k (int8, padded with zeros). int8 has a scale per output
/// row, and each row's sum, which the activations' offset is multiplied by.
class PackedWeight {
 public:
  PackedWeight() = default;
  /// Throws kOutOfMemory. `full_range`: int8 rows use all of -127..127, even where that makes their panels wide().
  PackedWeight(Index out, Index in, Precision precision, bool full_range = false);

  Index out() const { return out_; }
  Index in() const { return in_; }
  Precision precision() const { return precision_; }

  /// Copies output rows [first, first + count) in. Quantizes them where the store is int8: symmetric, per row, onto
  /// -127..127 or, where these would be wide(), onto as many fewer as that takes, but not onto fewer than 51. A row
  /// that holds an infinity or a NaN gets a scale of NaN, and all products with it are NaN.
  void write(Index first, Index count, const float* rows);
  /// Rows that are int8 already; exact in an int8 store, widened in an fp32 one.
  void writeInt8(Index first, Index count, const signed char* rows, const float* scales);
  /// Copies rows out; exact for fp32, dequantized for int8.
  void read(Index first, Index count, float* rows) const;

  /// Steps of a panel.
  Index steps() const { return steps_; }
  Index panels() const { return (out_ + 7) / 8; }
  Index panelBytes() const { return steps_ * step_bytes_; }
  const std::byte* panel(Index p) const { return storage_[0].bytes + p * panelBytes(); }
  /// int8: one per output row, filled up with zeros to whole panels.
  const float* scales() const { return scales_.data(); }
  const float* sums() const { return sums_.data(); }
  /// int8: whether some kInt8Together products of a row in panels [p, p + count) with 0..127 may add up, in the places
  /// of NarrowDotStep, to more than 16 bits hold.
  bool wide(Index p, Index count) const {
    return std::any_of(wide_.data() + p, wide_.data() + p + count, [](uint8_t rows) { return rows != 0; });
  }

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  /// Where a row's part of its panel's first step lies.
  std::byte* row(Index row);
  const std::byte* row(Index row) const { return const_cast<PackedWeight*>(this)->row(row); }

  Index out_ = 0;
  Index in_ = 0;
  Index steps_ = 0;
  Index step_bytes_ = 0;
  Precision precision_ = Precision::kFloat32;
  bool full_range_ = false;
  std::vector<CacheLine> storage_;
  std::vector<float> scales_;
  std::vector<float> sums_;
  std::vector<uint8_t> wide_;  // a panel's rows, a bit each
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

/// All `products` of one left operand a (T, K), which is packed (fp32) or quantized (int8) once. A row's result depends
/// on that row and the weight alone, bit for bit, whatever T is and wherever the row stands.
void matmul(ConstMatrixView a, std::span<const Product> products, Arena& arena);
inline void matmul(ConstMatrixView a, const PackedWeight& weight, const Epilogue& epilogue, MatrixView out,
                   Arena& arena) {
  const Product product{&weight, epilogue, out};
  matmul(a, std::span(&product, 1), arena);
}

}  // namespace heed
