#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/zeroed.h"
#include "gemm/range.h"
#include "heed/module.h"

/// The weights of matrix products C = A W^T, packed for multiplication.
/// Notation: A (T, K), W (M, K) as PyTorch stores it, C (T, M). See gemm/tile.h for row block, panel and k-step.
namespace heed {

struct LeftChunk;
struct Product;
struct RowBlocks;

/// A form of the packed left operand, such as interleaved fp32 rows. Weight formats that read the same form return the
/// same LeftForm object, so that a left operand is packed once for all of them.
struct LeftForm {
  /// The number of 4-byte words for `rows` rows of K values.
  Index (*words)(Index rows, Index depth);
  void (*pack)(ConstMatrixView a, const RowBlocks& blocks, uint32_t* to);
};

/// A weight W. Each format is a derived class in its own file. It packs and unpacks rows, and multiplies with
/// multiplyChunk() (gemm/chunk.h).
class PackedWeight : public RowStorage {
 public:
  /// A weight of zeros. `full_range`: see Int8Weight. Throws kOutOfMemory.
  static std::unique_ptr<PackedWeight> create(Index out, Index in, Precision precision, bool full_range = false);
  Index out() const { return out_; }  ///< M
  Index in() const { return in_; }    ///< K

  virtual const LeftForm& leftForm() const = 0;
  /// Computes the columns of C in `panels` for a chunk whose rows are packed in leftForm(). `sums` is scratch of
  /// kMaxSums floats.
  virtual void multiply(const LeftChunk& left, const Product& product, Range panels, float* sums) const = 0;

  /// Column panels of W^T: 8 output rows of W each, the last one padded with zeros.
  Index panels() const { return out_ / 8 + (out_ % 8 != 0); }
  Index panelBytes() const { return steps_ * step_bytes_; }
  const std::byte* panel(Index p) const { return storage_.data()->bytes + p * panelBytes(); }
  /// The number of k-steps of a panel.
  Index steps() const { return steps_; }

 protected:
  PackedWeight(Index out, Index in, Index steps, Index step_bytes);
  PackedWeight(PackedWeight&&) noexcept = default;
  PackedWeight& operator=(PackedWeight&&) noexcept = default;

  Index stepBytes() const { return step_bytes_; }
  /// The values of output row r in the first k-step of its panel; those of the next k-step are stepBytes() later.
  std::byte* row(Index r) { return storage_.data()->bytes + r / 8 * panelBytes() + r % 8 * step_bytes_ / 8; }
  const std::byte* row(Index r) const { return const_cast<PackedWeight*>(this)->row(r); }

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };

  Index out_, in_, steps_, step_bytes_;
  Zeroed<CacheLine> storage_;
};

}  // namespace heed
