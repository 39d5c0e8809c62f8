#include "core/encoded_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "core/coded_rows.h"
#include "core/trellis.h"

namespace heed {
namespace {

/// Number of bytes that are copied and converted at a time. For coded columns, it is the size of the converted values,
/// so that these stay in the cache.
constexpr Index kChunkBytes = 1 << 18;

/// Converts fp16 to fp32. Scaling by a power of two is exact even for subnormal values, which are normal in fp32.
float widenHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7fffu;
  const float size = rest >= 0x7c00u ? std::bit_cast<float>(0x7f800000u | (rest & 0x3ffu) << 13)
                                     : std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | sign);
}

float widenBrainFloat(uint16_t brain) { return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16); }

/// How a type stores a row.
struct Format {
  enum class Kind { kFloat, kHalf, kBrainFloat, kCoded, kColumns };
  Kind kind;
  RowCode code = RowCode::kNone;

  int64_t rowBytes(Index width) const {
    if (code != RowCode::kNone) return codedRowBytes(code, width);
    return int64_t{width} * (kind == Kind::kFloat ? 4 : 2);
  }
  bool hasColumnScales() const { return trellisBits(code) != 0; }
};

Format formatNamed(std::string_view type) {
  using enum Format::Kind;
  static constexpr std::pair<std::string_view, Format> kFormats[] = {
      {"F32", {kFloat}},
      {"F16", {kHalf}},
      {"BF16", {kBrainFloat}},
      {"I8", {kCoded, RowCode::kInt8}},
      {"Hadamard I8", {kCoded, RowCode::kHadamardInt8}},
      {"rotated I8", {kCoded, RowCode::kRotatedInt8}},
      {"int4", {kCoded, RowCode::kInt4}},
      {"trellis2", {kCoded, RowCode::kTrellis2}},
      {"trellis3", {kCoded, RowCode::kTrellis3}},
      {"trellis4", {kCoded, RowCode::kTrellis4}},
      {"trellis2columns", {kColumns, RowCode::kTrellis2}},
      {"trellis3columns", {kColumns, RowCode::kTrellis3}},
      {"trellis4columns", {kColumns, RowCode::kTrellis4}},
  };
  for (const auto& [name, format] : kFormats) {
    if (name == type) return format;
  }
  throwInvalid(ErrorCode::kInvalidArgument, "dtype", "a type of rows", "'" + std::string(type) + "'");
}

/// The scales of `count` rows.
struct Scales {
  const float *rows = nullptr, *columns = nullptr, *outliers = nullptr;
  Index outlier_count = 0;

  Scales(const Format& format, std::span<const float> given, Index count, Index width) {
    if (format.code == RowCode::kNone) return;
    const int64_t own = int64_t{count} + (format.hasColumnScales() ? width : 0);
    const auto size = static_cast<int64_t>(given.size());
    if (format.kind == Format::Kind::kColumns && size > own) outlier_count = static_cast<Index>((size - own) / 3);
    requireCount("scales", static_cast<double>(size), own + 3 * int64_t{outlier_count});
    rows = given.data();
    if (!format.hasColumnScales()) return;
    columns = rows + count;
    outliers = columns + width;
  }

  /// Replaces the outliers among rows [first, first + count) of `values`.
  void placeOutliers(Index first, Index count, Index width, float* values) const {
    for (Index i = 0; i < outlier_count; ++i) {
      const float* outlier = outliers + 3 * i;
      const float row = outlier[0] - static_cast<float>(first), column = outlier[1];
      // Compared as floats, because files may have numbers here that no integer can represent.
      if (!(row >= 0 && row < static_cast<float>(count) && column >= 0 && column < static_cast<float>(width))) continue;
      values[static_cast<Index>(row) * width + static_cast<Index>(column)] = outlier[2];
    }
  }
};

}  // namespace

RowCode rowCodeNamed(std::string_view name) {
  if (name == "int4") return RowCode::kInt4;
  if (name == "trellis2") return RowCode::kTrellis2;
  if (name == "trellis3") return RowCode::kTrellis3;
  return name == "trellis4" ? RowCode::kTrellis4 : RowCode::kNone;
}

void writeEncodedRows(const Parameter& parameter, int64_t first, const EncodedRows& encoded, Arena& arena) {
  using enum Format::Kind;
  const Format format = formatNamed(encoded.type);
  const Index width = parameter.rowSize();
  const int64_t row_size = format.rowBytes(width), count = row_size == 0 ? 0 : encoded.bytes / row_size;
  if (encoded.bytes != count * row_size || first < 0 || first > parameter.rows() || count > parameter.rows() - first) {
    throwInvalid(ErrorCode::kShapeMismatch, parameter.name, "complete rows of shape " + parameter.shape.toString(),
                 std::to_string(encoded.bytes) + " bytes of " + std::string(encoded.type) + " from row " +
                     std::to_string(first));
  }
  if (row_size > std::numeric_limits<Index>::max())
    throwOutOfMemory(parameter.name, parameter.shape, static_cast<double>(encoded.bytes));
  const bool is_rotated = format.code == RowCode::kHadamardInt8 || format.code == RowCode::kRotatedInt8;
  if (is_rotated && !parameter.hasStorage()) {
    throwInvalid(ErrorCode::kUnsupported, parameter.name, "rotated rows as int8, for a matrix",
                 std::string(encoded.type));
  }
  if (format.code == RowCode::kInt4 && width % 2 != 0) {
    throwInvalid(ErrorCode::kUnsupported, parameter.name, "rows of an even width in 4 bits",
                 "width " + std::to_string(width));
  }
  const auto row_bytes = static_cast<Index>(row_size), rows = static_cast<Index>(count);
  const Scales scales(format, encoded.scales, rows, width);
  if (rows == 0) return;

  const int64_t wide_bytes = format.kind == kColumns ? 4 * int64_t{width} : 0;
  const int64_t fitting = std::max<int64_t>(1, kChunkBytes / std::max(row_size, wide_bytes));
  const Index chunk = std::min(rows, static_cast<Index>(fitting));
  auto* raw = arena.take<std::byte>(chunk * row_bytes);
  float* wide = arena.take<float>(format.kind == kFloat ? 0 : format.kind == kCoded ? width : chunk * width);
  auto* states = arena.take<uint16_t>(format.kind == kColumns ? width : 0);
  if (format.kind == kColumns) std::fill_n(states, width, uint16_t{0});
  for (Index row = 0; row < rows; row += chunk) {
    const Index size = std::min(chunk, rows - row), values = size * width, to = static_cast<Index>(first) + row;
    encoded.copy(row * row_size, size * row_bytes, raw);
    const auto* bytes = reinterpret_cast<const uint8_t*>(raw);
    switch (format.kind) {
      case kFloat:
        parameter.write(to, size, reinterpret_cast<const float*>(raw));
        continue;
      case kCoded:
        parameter.writeCoded(to, size, {format.code, width, bytes, scales.rows + row, scales.columns}, wide);
        continue;
      case kColumns:
        for (Index r = 0; r < size; ++r) {
          decodeTrellis(bytes + r * row_bytes, trellisBits(format.code), width, scales.rows[row + r], scales.columns,
                        states, wide + r * width);
        }
        scales.placeOutliers(row, size, width, wide);
        break;
      case kHalf:
      case kBrainFloat: {
        const auto widen = format.kind == kHalf ? widenHalf : widenBrainFloat;
        for (Index i = 0; i < values; ++i) {
          uint16_t narrow;
          std::memcpy(&narrow, raw + 2 * i, 2);
          wide[i] = widen(narrow);
        }
      }
    }
    parameter.write(to, size, wide);
  }
}

}  // namespace heed
