#pragma once

#include <vector>

#include "heed/module.h"

/// Rows of 4-bit numbers by trellis-coded quantization (Marcellin, Fischer 1990, doi:10.1109/26.46532).
///
/// A row has an even width, one scale, and int4RowBytes(width) bytes of numbers from 0 to 15. Each byte holds two
/// numbers, the first in its low half: a factor f for each group of 64 columns, padded to whole bytes, then an index q
/// for each column.
///
///   value = scale * (f + 1) * level[2 q + (state & 1)]
///
/// The trellis has 8 states. The state is 0 at the first column of a group; after each column it becomes
/// (state >> 1) ^ (state & 1 ? 6 : 0) ^ (q & 1). Each state selects 16 of 32 levels; q selects one of these, and
/// influences the levels available to later columns. The levels minimize the squared error for normally distributed
/// numbers. Products are exact in fp32 if the scale is a bfloat16 number.
namespace heed {

inline constexpr Index kInt4Group = 64;
inline Index int4FactorBytes(Index width) { return (width + 2 * kInt4Group - 1) / (2 * kInt4Group); }
inline Index int4RowBytes(Index width) { return int4FactorBytes(width) + width / 2; }

/// Writes the values of one row.
void decodeInt4(const uint8_t* row, float scale, Index width, float* out);

/// An embedding table (rows, width) stored in 4 bits. Rows are decoded when they are read.
class Int4Table final : public RowStorage {
 public:
  /// Throws kInvalidArgument for an odd width, and kOutOfMemory.
  Int4Table(Index rows, Index width);

  /// Only 4-bit rows can be written: throws kUnsupported.
  void write(Index first, Index count, const float* rows) override;
  void writeInt8(Index first, Index count, const signed char* rows, const float* scales) override;
  void writeRotatedInt8(Index first, Index count, const signed char* rows, const float* scales, float* row) override;
  void writeInt4(Index first, Index count, Index width, const uint8_t* rows, const float* scales, float* row) override;
  void read(Index first, Index count, float* rows) const override;

  Index rows() const { return rows_; }
  Index width() const { return width_; }

 private:
  Index rows_, width_;
  std::vector<uint8_t> values_;  // (rows, int4RowBytes(width))
  std::vector<float> scales_;    // (rows)
};

}  // namespace heed
