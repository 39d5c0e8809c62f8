#pragma once

#include <vector>

#include "heed/module.h"

/// Rows of 4-bit numbers, for embedding tables. Column k of a row is in byte k / 2, in the low half if k is even, as
/// the index of one of 16 levels; kInt4Group columns share a scale: value = scale * level. A row has (width + 31) / 32
/// scales. The levels have the least squared error for groups of normally distributed numbers (Lloyd 1982,
/// doi:10.1109/TIT.1982.1056489).
namespace heed {

inline constexpr Index kInt4Group = 32;
inline Index int4Scales(Index width) { return (width + kInt4Group - 1) / kInt4Group; }

/// Writes the values of one row. `width` is even.
void decodeInt4(const uint8_t* row, const float* scales, Index width, float* out);

/// An embedding table (rows, width) that is kept in 4 bits and a scale per group; rows are decoded when they are read.
class Int4Table final : public RowStorage {
 public:
  /// Throws kInvalidArgument for an odd width, and kOutOfMemory.
  Int4Table(Index rows, Index width);

  /// Only 4-bit rows can be written: throws kUnsupported.
  void write(Index first, Index count, const float* rows) override;
  void writeInt8(Index first, Index count, const signed char* rows, const float* scales) override;
  void writeInt4(Index first, Index count, Index width, const uint8_t* rows, const float* scales) override;
  void read(Index first, Index count, float* rows) const override;

  Index rows() const { return rows_; }
  Index width() const { return width_; }

 private:
  Index rows_, width_;
  std::vector<uint8_t> values_;  // (rows, width / 2)
  std::vector<float> scales_;    // (rows, int4Scales(width))
};

}  // namespace heed
