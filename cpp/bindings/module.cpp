#include "module.h"

#include <emscripten/bind.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "core/coded_rows.h"
#include "core/trellis.h"

namespace heed::bindings {
namespace {

/// Number of bytes that are copied and converted at a time, which avoids a second copy of a large matrix.
constexpr Index kChunkBytes = 1 << 18;

/// Converts fp16 to fp32. Scaling by a power of two is exact even for subnormal values, which are normal in fp32.
float widenHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7fffu;
  const float size = rest >= 0x7c00u ? std::bit_cast<float>(0x7f800000u | (rest & 0x3ffu) << 13)
                                     : std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | sign);
}

float widenBrainFloat(uint16_t brain) { return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16); }

/// Copies bytes [begin, begin + count) of a Uint8Array to `out`.
void copyBytes(const val& bytes, int64_t begin, Index count, void* out) {
  val(emscripten::typed_memory_view(static_cast<size_t>(count), static_cast<uint8_t*>(out)))
      .call<void>("set",
                  bytes.call<val>("subarray", static_cast<double>(begin), static_cast<double>(begin + int64_t{count})));
}

/// The types of rows that writeParameter() reads.
struct RowType {
  explicit RowType(const std::string& dtype) {
    constexpr std::string_view kColumns = "columns";
    columns = dtype.ends_with(kColumns);
    code = rowCodeNamed(columns ? dtype.substr(0, dtype.size() - kColumns.size()) : dtype);
    floats = dtype == "F32";
    rotated = dtype == "rotated I8";
    int8 = rotated || dtype == "I8";
  }
  int64_t rowBytes(Index width) const {
    if (code != RowCode::kNone) return codedRowBytes(code, width);
    return int64_t{width} * (floats ? 4 : int8 ? 1 : 2);
  }
  bool hasColumnScales() const { return code == RowCode::kTrellis3 || code == RowCode::kTrellis4; }

  RowCode code;
  bool columns, floats, rotated, int8;
};

}  // namespace

RowCode rowCodeNamed(const std::string& name) {
  if (name == "int4") return RowCode::kInt4;
  if (name == "trellis3") return RowCode::kTrellis3;
  return name == "trellis4" ? RowCode::kTrellis4 : RowCode::kNone;
}

const Parameter& BoundModule::parameter(unsigned index) {
  if (parameters_.empty()) parameters_ = module().parameters();
  if (index >= parameters_.size()) {
    refuse(ErrorCode::kInvalidArgument, "parameter", "an index below " + std::to_string(parameters_.size()),
           std::to_string(index));
  }
  return parameters_[index];
}

val BoundModule::parameters() {
  return guarded([&] {
    if (parameters_.empty()) parameters_ = module().parameters();
    val list = val::array();
    for (const Parameter& p : parameters_) {
      val entry = val::object();
      entry.set("name", p.name);
      entry.set("shape", writeShape(p.shape));
      entry.set("isBuffer", p.kind == ParameterKind::kBuffer);
      list.call<void>("push", entry);
    }
    return list;
  });
}

val BoundModule::readParameter(unsigned index) {
  return guarded([&] {
    const Parameter& p = parameter(index);
    float* data = arena().take<float>(p.shape.size());
    p.read(0, p.rows(), data);
    return writeFloats(data, p.shape.size());
  });
}

void BoundModule::writeParameter(unsigned index, double first_row, const val& bytes, const std::string& dtype,
                                 const val& scales) {
  guarded([&] {
    const Parameter& p = parameter(index);
    const Index width = p.rowSize();
    const RowType type(dtype);
    // In 64 bits, because the array may be larger than WebAssembly's memory.
    const int64_t row_size = type.rowBytes(width);
    const auto length = static_cast<int64_t>(bytes["length"].as<double>()), from = static_cast<int64_t>(first_row);
    if (length % row_size != 0 || from < 0 || from > p.rows() || length / row_size > p.rows() - from) {
      refuse(ErrorCode::kShapeMismatch, p.name, "complete rows of shape " + p.shape.toString(),
             std::to_string(length) + " bytes of " + dtype + " from row " + std::to_string(from));
    }
    if (row_size > std::numeric_limits<Index>::max()) refuseMemory(p.name, p.shape, static_cast<double>(length));
    const auto row_bytes = static_cast<Index>(row_size), rows = static_cast<Index>(length / row_size),
               first = static_cast<Index>(from);
    if (type.rotated && !p.takesInt8())
      refuse(ErrorCode::kUnsupported, p.name, "rotated rows as int8, for a matrix", dtype);
    const bool coded = type.code != RowCode::kNone;
    Index scale_count = type.int8 || coded ? rows + (type.hasColumnScales() ? width : 0) : 0, outliers = 0;
    if (scale_count > 0) {
      const auto given = scales["length"].as<double>();
      if (type.columns && given > scale_count) outliers = static_cast<Index>((given - scale_count) / 3);
      scale_count += 3 * outliers;
      requireCount("scales", given, scale_count);
    }
    float* row_scales = arena().take<float>(scale_count);
    if (scale_count > 0) {
      val(emscripten::typed_memory_view(static_cast<size_t>(scale_count), row_scales)).call<void>("set", scales);
    }
    const float* column_scales = type.hasColumnScales() ? row_scales + rows : nullptr;
    // Take all memory before writing the first row.
    const Index chunk = std::min(rows, std::max<Index>(1, kChunkBytes / row_bytes));
    auto* raw = arena().take<std::byte>(chunk * row_bytes);
    const bool as_is = type.floats || (type.int8 && p.takesInt8() && !type.rotated);
    float* wide = arena().take<float>(as_is ? 0 : type.rotated || (coded && !type.columns) ? width : chunk * width);
    auto* states = arena().take<uint16_t>(type.columns ? width : 0);
    if (type.columns) std::fill_n(states, width, uint16_t{0});
    for (Index row = 0; row < rows; row += chunk) {
      const Index count = std::min(chunk, rows - row), values = count * width;
      copyBytes(bytes, row * row_size, count * row_bytes, raw);
      if (type.floats) {
        p.write(first + row, count, reinterpret_cast<const float*>(raw));
        continue;
      }
      if (type.rotated) {
        p.writeRotatedInt8(first + row, count, reinterpret_cast<const signed char*>(raw), row_scales + row, wide);
        continue;
      }
      if (type.int8 && p.takesInt8()) {
        p.writeInt8(first + row, count, reinterpret_cast<const signed char*>(raw), row_scales + row);
        continue;
      }
      const auto* numbers = reinterpret_cast<const uint8_t*>(raw);
      if (coded && !type.columns) {
        p.writeCoded(first + row, count, {type.code, width, numbers, row_scales + row, column_scales}, wide);
        continue;
      }
      if (coded) {
        const int bits = type.code == RowCode::kTrellis3 ? 3 : 4;
        for (Index r = 0; r < count; ++r)
          decodeTrellis(numbers + r * row_bytes, bits, width, row_scales[row + r], column_scales, states,
                        wide + r * width);
        for (Index i = 0; i < outliers; ++i) {
          const float* outlier = column_scales + width + 3 * i;
          const Index r = static_cast<Index>(outlier[0]) - row, c = static_cast<Index>(outlier[1]);
          if (r >= 0 && r < count && c >= 0 && c < width) wide[r * width + c] = outlier[2];
        }
        p.write(first + row, count, wide);
        continue;
      }
      const auto widen = dtype == "F16" ? widenHalf : widenBrainFloat;
      for (Index i = 0; i < values; ++i) {
        if (type.int8) {
          wide[i] = row_scales[row + i / width] * static_cast<float>(reinterpret_cast<const signed char*>(raw)[i]);
        } else {
          uint16_t narrow;
          std::memcpy(&narrow, raw + 2 * i, 2);
          wide[i] = widen(narrow);
        }
      }
      p.write(first + row, count, wide);
    }
  });
}

void BoundModule::initialize(const val& seed) {
  guarded([&] { heed::initialize(module(), readSeed(seed), initialization()); });
}

EMSCRIPTEN_BINDINGS(heed_module) {
  emscripten::class_<BoundModule>("Module")
      .function("parameters", &BoundModule::parameters)
      .function("readParameter", &BoundModule::readParameter)
      .function("writeParameter", &BoundModule::writeParameter)
      .function("setTraining", &BoundModule::setTraining)
      .function("seed", &BoundModule::seed)
      .function("isRunning", &BoundModule::isRunning)
      .function("initialize", &BoundModule::initialize);
}

}  // namespace heed::bindings
