#include <emscripten/bind.h>
#include <emscripten/version.h>

#include <algorithm>

#include "convert.h"
#include "core/check.h"
#include "gemm/gemm.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "ops/softmax.h"

namespace heed::bindings {
namespace {

val attentionOf(const val& query, const val& key, const val& value, const val& options) {
  return guarded([&] {
    const Input q = readTensor(query), k = readTensor(key), v = readTensor(value);
    const BatchedAttention attention(q.shape, k.shape, v.shape);
    AttentionOptions call = readCallOptions(options);
    if (const val scale = options["scale"]; !scale.isNull()) call.scale = scale.as<float>();
    if (const val dropout = options["dropout"]; !dropout.isNull()) {
      call.dropout = readFloat(dropout, "p");
      call.dropout_key.seed = readSeed(dropout["seed"]);
    }
    const auto mask = readMask("mask", options["mask"]);
    if (mask) call.masks = {&*mask, 1};
    const Shape &output_shape = attention.outputShape(), &weights_shape = attention.weightsShape();
    float* output = arena().take<float>(output_shape.size());
    float* weights = readBool(options, "returnWeights") ? arena().take<float>(weights_shape.size()) : nullptr;
    attention.forward(q.data, k.data, v.data, call, output, weights, context());
    return writeAttended(writeTensor(output_shape, output),
                         weights ? writeTensor(weights_shape, weights) : val::null());
  });
}

void requireAxes(const char* argument, const Shape& shape) {
  if (shape.rank() < 1) refuseShape(argument, "at least one axis", shape);
}

void requireVector(const char* argument, const std::optional<Input>& vector, Index width) {
  if (vector) requireShape(argument, vector->shape, Shape{width});
}

val softmaxOf(const val& tensor) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    requireAxes("x", x.shape);
    const Index width = x.shape[-1];
    for (Index row = 0; row < x.shape.rows(); ++row) softmaxRow(x.data + row * width, width);
    return writeTensor(x.shape, x.data);
  });
}

val linearOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor), weight = readTensor(options["weight"]);
    const auto bias = readOptionalTensor(options["bias"]);
    requireAxes("x", x.shape);
    if (weight.shape.rank() != 2 || weight.shape[1] != x.shape[-1]) {
      refuseShape("weight", "[out, " + std::to_string(x.shape[-1]) + "], as wide as x", weight.shape);
    }
    const Index out = weight.shape[0];
    requireVector("bias", bias, out);
    std::vector<Index> extents = x.shape.extents();
    extents.back() = out;
    const Shape shape(std::move(extents));
    MatrixView output = arena().matrix(x.shape.rows(), out);
    linear(readOnly(x.matrix()), readOnly(weight.matrix()), bias ? bias->data : nullptr, readActivation(options),
           output, context());
    return writeTensor(shape, output.data());
  });
}

val layerNormOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    requireAxes("x", x.shape);
    const auto weight = readOptionalTensor(options["weight"]), bias = readOptionalTensor(options["bias"]);
    requireVector("weight", weight, x.shape[-1]);
    requireVector("bias", bias, x.shape[-1]);
    MatrixView rows = view(x.data, x.shape.rows(), x.shape[-1]);
    layerNorm(readOnly(rows), weight ? weight->data : nullptr, bias ? bias->data : nullptr, readFloat(options, "eps"),
              rows);
    return writeTensor(x.shape, x.data);
  });
}

val dropoutOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    MatrixView all = view(x.data, 1, x.shape.size());
    dropout(readOnly(all), readFloat(options, "p"), readScaling(options), {.seed = readSeed(options["seed"])}, all);
    return writeTensor(x.shape, x.data);
  });
}

val positionalEncodingOf(double length, double dim, double base) {
  return guarded([&] {
    const Shape shape{static_cast<Index>(length), static_cast<Index>(dim)};
    (void)requireRoom("positionalEncoding", shape);
    MatrixView output = arena().matrix(shape[0], shape[1]);
    positionalEncoding(base, output);
    return writeTensor(shape, output.data());
  });
}

val rotaryOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    if (x.shape.rank() < 2) refuseShape("x", "[..., L, D]", x.shape);
    const Index length = x.shape[-2], width = x.shape[-1], first = readIndex(options, "firstPosition");
    RotaryOption rotary(options, width);
    const Rotary* tables = rotary.tables(length, first);
    const Index count = x.shape.size() == 0 ? 0 : x.shape.size() / (length * width);
    for (Index b = 0; b < count; ++b) tables->rotate(view(x.data + b * length * width, length, width), 1, first);
    return writeTensor(x.shape, x.data);
  });
}

/// Expands the bias that `make` computes to [H, L, S]. `make` is not called for results that are empty or too large.
template <class Make>
val expanded(Index heads, Index queries, Index keys, Make make) {
  const Shape shape{heads, queries, keys};
  if (shape.size() == 0) return writeTensor(shape, nullptr);
  const PositionBias bias = make(std::max(queries, keys));
  float* out = arena().take<float>(shape.size());
  bias.expand(heads, queries, keys, out);
  return writeTensor(shape, out);
}

val alibiOf(double heads, double queries, double keys) {
  return guarded([&] {
    const auto h = static_cast<Index>(heads), l = static_cast<Index>(queries), s = static_cast<Index>(keys);
    return expanded(h, l, s, [&](Index longest) { return alibiBias(h, longest); });
  });
}

val relativeBiasOf(const val& table, const val& options) {
  return guarded([&] {
    const Input t = readTensor(table);
    if (t.shape.rank() != 2) refuseShape("table", "[buckets, H]", t.shape);
    const Index queries = readIndex(options, "queries"), keys = readIndex(options, "keys");
    return expanded(t.shape[1], queries, keys, [&](Index longest) {
      return relativeBias(readOnly(t.matrix()), longest, readIndex(options, "maxDistance"),
                          readBool(options, "bidirectional"));
    });
  });
}

std::string compiler() {
  return "emscripten " + std::to_string(__EMSCRIPTEN_major__) + "." + std::to_string(__EMSCRIPTEN_minor__) + "." +
         std::to_string(__EMSCRIPTEN_tiny__) + ", clang " + __clang_version__;
}

double memoryBytes() { return static_cast<double>(__builtin_wasm_memory_size(0)) * 65536; }

}  // namespace

EMSCRIPTEN_BINDINGS(heed_functions) {
  emscripten::function("attention", &attentionOf);
  emscripten::function("softmax", &softmaxOf);
  emscripten::function("linear", &linearOf);
  emscripten::function("layerNorm", &layerNormOf);
  emscripten::function("dropout", &dropoutOf);
  emscripten::function("positionalEncoding", &positionalEncodingOf);
  emscripten::function("rotary", &rotaryOf);
  emscripten::function("alibi", &alibiOf);
  emscripten::function("relativeBias", &relativeBiasOf);
  emscripten::function("compiler", &compiler);
  emscripten::function("memoryBytes", &memoryBytes);
  emscripten::function("useTallRowBlocks", &useTallRowBlocks);
}

}  // namespace heed::bindings
