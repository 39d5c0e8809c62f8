#include "module.h"

#include <emscripten/bind.h>

#include "core/check.h"
#include "core/encoded_rows.h"

namespace heed::bindings {

const Parameter& BoundModule::parameter(unsigned index) {
  if (parameters_.empty()) parameters_ = module().parameters();
  if (index >= parameters_.size()) {
    throwInvalid(ErrorCode::kInvalidArgument, "parameter", "an index below " + std::to_string(parameters_.size()),
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
    writeEncodedRows(
        parameter(index), static_cast<int64_t>(first_row),
        {.type = dtype,
         .bytes = static_cast<int64_t>(bytes["length"].as<double>()),
         .scales = scales.isUndefined() ? std::span<const float>() : readArray<float>(scales),
         .copy =
             [&](int64_t begin, Index count, std::byte* out) {
               const val part =
                   bytes.call<val>("subarray", static_cast<double>(begin), static_cast<double>(begin + int64_t{count}));
               val(emscripten::typed_memory_view(static_cast<size_t>(count), reinterpret_cast<uint8_t*>(out)))
                   .call<void>("set", part);
             }},
        arena());
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
