#include "module.h"

#include <emscripten/bind.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "core/int4.h"

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

}  // namespace

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
    const bool rotated = dtype == "rotated I8", int8 = rotated || dtype == "I8", int4 = dtype == "U8";
    // In 64 bits, because the array may be larger than WebAssembly's memory.
    const int64_t row_size = int4 ? int4RowBytes(width) : int64_t{width} * (dtype == "F32" ? 4 : int8 ? 1 : 2);
    const auto length = static_cast<int64_t>(bytes["length"].as<double>()), from = static_cast<int64_t>(first_row);
    if (length % row_size != 0 || from < 0 || from > p.rows() || length / row_size > p.rows() - from) {
      refuse(ErrorCode::kShapeMismatch, p.name, "complete rows of shape " + p.shape.toString(),
             std::to_string(length) + " bytes of " + dtype + " from row " + std::to_string(from));
    }
    if (row_size > std::numeric_limits<Index>::max()) refuseMemory(p.name, p.shape, static_cast<double>(length));
    const auto row_bytes = static_cast<Index>(row_size), rows = static_cast<Index>(length / row_size),
               first = static_cast<Index>(from);
    if (rotated && !(int8 && p.takesInt8()))
      refuse(ErrorCode::kUnsupported, p.name, "rotated rows as int8, for a matrix", dtype);
    const bool scaled = int8 || int4;
    if (scaled) requireCount("scales", scales["length"].as<double>(), rows);
    float* row_scales = arena().take<float>(scaled ? rows : 0);
    if (scaled) val(emscripten::typed_memory_view(static_cast<size_t>(rows), row_scales)).call<void>("set", scales);
    // Take all memory before writing the first row.
    const Index chunk = std::min(rows, std::max<Index>(1, kChunkBytes / row_bytes));
    auto* raw = arena().take<std::byte>(chunk * row_bytes);
    const bool as_is = dtype == "F32" || (int8 && p.takesInt8() && !rotated);
    float* wide = arena().take<float>(as_is ? 0 : int4 || rotated ? width : chunk * width);
    for (Index row = 0; row < rows; row += chunk) {
      const Index count = std::min(chunk, rows - row), values = count * width;
      copyBytes(bytes, row * row_size, count * row_bytes, raw);
      if (dtype == "F32") {
        p.write(first + row, count, reinterpret_cast<const float*>(raw));
        continue;
      }
      if (rotated) {
        p.writeRotatedInt8(first + row, count, reinterpret_cast<const signed char*>(raw), row_scales + row, wide);
        continue;
      }
      if (int8 && p.takesInt8()) {
        p.writeInt8(first + row, count, reinterpret_cast<const signed char*>(raw), row_scales + row);
        continue;
      }
      if (int4) {
        p.writeInt4(first + row, count, reinterpret_cast<const uint8_t*>(raw), row_scales + row, wide);
        continue;
      }
      const auto widen = dtype == "F16" ? widenHalf : widenBrainFloat;
      for (Index i = 0; i < values; ++i) {
        if (int8) {
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
