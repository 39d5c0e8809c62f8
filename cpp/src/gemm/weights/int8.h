#pragma once

#include "gemm/rotation.h"
#include "gemm/weights/packed_weight.h"

namespace heed {

/// int8: output row r of W is scales[r] times integers in -127..127. The left operand is quantized row by row to 7 bits
/// when it is packed: x = s q + o with q in 0..127. With the integers w of row r, C = scales[r] (s sum(q w) + o
/// sum(w)). If a row's range, or a product with it, exceeds the range of fp32, results may be NaN.
///
/// A row is *wide* if NarrowDotStep, which adds eight products in 16 bits, could overflow on it. Panels with a wide row
/// use a slower kernel. write() therefore quantizes a row to a smaller range, down to -51..51, if it is then not wide.
/// With `full_range` it never does; embedding tables set it, because their rows are read one by one. A row that
/// contains an infinity or a NaN gets the scale NaN, and all products with it are NaN.
///
/// Rows of both operands are rotated before they are quantized (gemm/rotation.h), which read() reverses. Exceptions:
/// tables (`full_range`), depths without a rotation, and weights with rows of kInt8, whose integers are kept.
class Int8Weight final : public PackedWeight {
 public:
  /// Throws kOutOfMemory.
  explicit Int8Weight(Index out, Index in, bool full_range = false);

  /// Quantizes the rows.
  void write(Index first, Index count, const float* rows) override;
  /// Stores the integers and scales of kRotatedInt8, kHadamardInt8 and kInt8 unchanged. A weight has one rotation: the
  /// last of these codes that was written decides which, and rows that are already there are quantized again. Rows of
  /// the codes before it are then written as fp32.
  void writeCoded(Index first, Index count, const CodedRows& rows, float* row) override;
  void read(Index first, Index count, float* rows) const override;

  const LeftForm& leftForm() const override;
  void multiply(const LeftChunk& left, const Product& product, Range panels, float* sums) const override;

  /// One per output row, padded with zeros to whole panels.
  const float* scales() const { return scales_.data(); }
  /// The sum of each output row's integers, padded like scales().
  const float* sums() const { return sums_.data(); }
  /// Whether a panel has a wide row.
  bool isWide(Index panel) const { return wide_[static_cast<size_t>(panel)] != 0; }

 private:
  /// K padded to whole vectors.
  Index depth() const { return panelBytes() / 8; }
  /// Quantizes the rows that are already there again.
  void changeRotation(Rotation rotation);
  /// Stores rows of depth() integers.
  void store(Index first, Index count, const signed char* rows, const float* scales);

  bool full_range_;
  Rotation rotation_;
  std::vector<float> scales_, sums_;
  std::vector<uint8_t> wide_;        // per panel: bit r is set if row r is wide
  std::vector<signed char> padded_;  // a row that is being written, (depth()), padded with zeros
  std::vector<float> rotated_row_;   // the same before it is quantized, (in())
};

}  // namespace heed
