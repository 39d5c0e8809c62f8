#include "core/coded_rows.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/trellis.h"

namespace heed {
namespace {

/// Symmetric: -127, ..., -3, 3, ..., 127.
constexpr float kLevels[32] = {-127, -105, -90, -80, -71, -62, -55, -48, -42, -36, -29, -24, -18, -13, -8,  -3,
                               3,    8,    13,  18,  24,  29,  36,  42,  48,  55,  62,  71,  80,  90,  105, 127};

int nibble(const uint8_t* bytes, Index i) { return bytes[i / 2] >> (4 * (i % 2)) & 15; }

}  // namespace

void decodeInt4(const uint8_t* row, float scale, Index width, float* out) {
  const uint8_t* indices = row + int4FactorBytes(width);
  for (Index begin = 0; begin < width; begin += kInt4Group) {
    const float step = scale * static_cast<float>(nibble(row, begin / kInt4Group) + 1);
    const Index end = std::min(begin + kInt4Group, width);
    int state = 0;
    for (Index k = begin; k < end; ++k) {
      const int index = nibble(indices, k);
      out[k] = step * kLevels[2 * index + (state & 1)];
      state = (state >> 1) ^ ((state & 1) * 6) ^ (index & 1);
    }
  }
}

std::optional<Rotation> rotationOf(RowCode code) {
  switch (code) {
    case RowCode::kInt8:
      return Rotation::kNone;
    case RowCode::kHadamardInt8:
      return Rotation::kWithoutSigns;
    case RowCode::kRotatedInt8:
      return Rotation::kWithSigns;
    default:
      return std::nullopt;
  }
}

int trellisBits(RowCode code) {
  switch (code) {
    case RowCode::kTrellis2:
      return 2;
    case RowCode::kTrellis3:
      return 3;
    case RowCode::kTrellis4:
      return 4;
    default:
      return 0;
  }
}

Index codedRowBytes(RowCode code, Index width) {
  switch (code) {
    case RowCode::kInt8:
    case RowCode::kHadamardInt8:
    case RowCode::kRotatedInt8:
      return width;
    default:
      return code == RowCode::kInt4 ? int4RowBytes(width) : trellisRowBytes(trellisBits(code), width);
  }
}

void CodedRows::decode(Index row, float* out) const {
  const uint8_t* from = bytes + row * codedRowBytes(code, width);
  if (code == RowCode::kInt4) return decodeInt4(from, scales[row], width, out);
  if (const std::optional<Rotation> rotation = rotationOf(code)) {
    for (Index k = 0; k < width; ++k) out[k] = scales[row] * static_cast<float>(static_cast<int8_t>(from[k]));
    return rotateBack(out, width, *rotation, out);
  }
  decodeTrellis(from, trellisBits(code), width, scales[row], column_scales, nullptr, out);
}

CodedRows CodedRows::from(Index row) const {
  return {code, width, bytes + row * codedRowBytes(code, width), scales + row, column_scales};
}

void RowStorage::writeCoded(Index first, Index count, const CodedRows& rows, float* row) {
  for (Index r = 0; r < count; ++r) {
    rows.decode(r, row);
    write(first + r, 1, row);
  }
}

CodedTable::CodedTable(RowCode code, Index rows, Index width) : code_(code), rows_(rows), width_(width) {
  if (code == RowCode::kInt4 && width % 2 != 0)
    throwInvalid(ErrorCode::kInvalidArgument, "embeddingDim", "an even width in 4 bits", std::to_string(width));
  const double bytes = static_cast<double>(rows) * static_cast<double>(codedRowBytes(code, width) + 4);
  if (bytes > static_cast<double>(std::numeric_limits<Index>::max())) throwOutOfMemory("weight", {rows, width}, bytes);
  allocating("weight", Shape{rows, width}, bytes, [&] {
    values_ = Zeroed<uint8_t>(static_cast<size_t>(rows * codedRowBytes(code, width)));
    scales_.resize(static_cast<size_t>(rows));
    if (code != RowCode::kInt4) column_scales_.resize(static_cast<size_t>(width));
  });
}

void CodedTable::write(Index, Index, const float*) {
  throwInvalid(ErrorCode::kUnsupported, "weight", "rows of 2 to 4 bits, as config.json says", "rows of another type");
}

void CodedTable::writeCoded(Index first, Index count, const CodedRows& rows, float*) {
  if (rows.code != code_) write(first, count, nullptr);
  const Index row_bytes = codedRowBytes(code_, width_);
  std::copy_n(rows.bytes, count * row_bytes, values_.data() + first * row_bytes);
  std::copy_n(rows.scales, count, scales_.data() + first);
  if (rows.column_scales) std::copy_n(rows.column_scales, width_, column_scales_.data());
}

void CodedTable::read(Index first, Index count, float* rows) const {
  const CodedRows all{code_, width_, values_.data(), scales_.data(), column_scales_.data()};
  for (Index r = first; r < first + count; ++r, rows += width_) all.decode(r, rows);
}

}  // namespace heed
