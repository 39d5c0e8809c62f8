#pragma once

#include <optional>
#include <vector>

#include "core/zeroed.h"
#include "gemm/rotation.h"
#include "heed/module.h"

/// Rows of weights as integers.
namespace heed {

/// A row of RowCode::kInt4 has an even width, one scale, and int4RowBytes(width) bytes of numbers from 0 to 15. Each
/// byte holds two numbers, the first in its low half: a factor f for each group of 64 columns, padded to whole bytes,
/// then an index q for each column.
///
///   value = scale * (f + 1) * level[2 q + (state & 1)]
///
/// The state is 0 at the first column of a group; after each column it becomes
/// (state >> 1) ^ (state & 1 ? 6 : 0) ^ (q & 1). Folders that heed 0.2.0 quantized have such rows.
inline constexpr Index kInt4Group = 64;
inline Index int4FactorBytes(Index width) { return (width + 2 * kInt4Group - 1) / (2 * kInt4Group); }
inline Index int4RowBytes(Index width) { return int4FactorBytes(width) + width / 2; }

/// Writes the values of one row of RowCode::kInt4. Products are exact in fp32 if the scale is a bfloat16 number.
void decodeInt4(const uint8_t* row, float scale, Index width, float* out);

/// The rotation of rows of int8 (gemm/rotation.h); nothing for other codes.
std::optional<Rotation> rotationOf(RowCode code);

/// The bits per weight of a trellis code; 0 for other codes.
int trellisBits(RowCode code);

/// The number of bytes of a row.
Index codedRowBytes(RowCode code, Index width);

/// An embedding table (rows, width) that is stored as CodedRows. Rows are decoded when they are read.
class CodedTable final : public RowStorage {
 public:
  /// Throws kInvalidArgument for an odd width with kInt4, and kOutOfMemory.
  CodedTable(RowCode code, Index rows, Index width);

  /// Only rows of the same code can be written: throws kUnsupported.
  void write(Index first, Index count, const float* rows) override;
  void writeCoded(Index first, Index count, const CodedRows& rows, float* row) override;
  void read(Index first, Index count, float* rows) const override;

  Index rows() const { return rows_; }
  Index width() const { return width_; }

 private:
  RowCode code_;
  Index rows_, width_;
  Zeroed<uint8_t> values_;            // (rows, codedRowBytes(code, width))
  std::vector<float> scales_;         // (rows)
  std::vector<float> column_scales_;  // (width), empty for kInt4
};

}  // namespace heed
