#include <emscripten/bind.h>
#include <emscripten/version.h>

#include <algorithm>
#include <cstdlib>

#include "call.h"
#include "core/check.h"
#include "gemm/gemm.h"
#include "ops/trellis_search.h"
#include "ops/triangular_factor.h"

namespace heed::bindings {
namespace {

/// An optional vector argument, which must have `width` entries; empty if it is not given.
Value vector(Call& call, const char* name, Index width) {
  const auto given = call.tensor(name);
  if (!given) return {};
  requireShape(name, given->shape, Shape{width});
  return given->value;
}

/// The argument x, which must have at least `axes` axes.
TensorArgument argument(Call& call, Index axes, const char* expected) {
  TensorArgument x = *call.tensor("x");
  if (x.shape.rank() < axes) throwShapeMismatch("x", expected, x.shape);
  return x;
}

val attentionOf(Call& call) {
  const val& given = call.arguments();
  const TensorArgument query = *call.tensor("query"), key = *call.tensor("key"), value = *call.tensor("value");
  const BatchedAttention attention(query.shape, key.shape, value.shape);
  AttentionOptions options;
  options.causal = readBool(given, "causal");
  options.window = readWindow(given);
  if (const val scale = given["scale"]; !scale.isNull()) options.scale = scale.as<float>();
  if (const val dropout = given["dropout"]; !dropout.isNull()) {
    options.dropout = readFloat(dropout, "p");
    options.dropout_key.seed = readSeed(dropout["seed"]);
  }
  const Shape& shape = attention.weightsShape();
  float* weights = weightsFor(call, shape);
  const std::optional<MaskTensor> mask = call.mask("mask");
  if (mask) options.masks = {&*mask, 1};
  const Value output = attention.forward(call.evaluator(), query.value, key.value, value.value, options, weights);
  const val written = weights ? writeTensor(shape, weights) : val::null();
  return writeAttended(call.result(attention.outputShape(), output), written);
}

val softmaxOf(Call& call) {
  const TensorArgument x = argument(call, 1, "at least one axis");
  return call.result(x.shape, call.evaluator().softmax(x.value));
}

val linearOf(Call& call) {
  const TensorArgument x = argument(call, 1, "at least one axis"), weight = *call.tensor("weight");
  if (weight.shape.rank() != 2 || weight.shape[1] != x.shape[-1])
    throwShapeMismatch("weight", "[out, " + std::to_string(x.shape[-1]) + "], as wide as x", weight.shape);
  const Value bias = vector(call, "bias", weight.shape[0]);
  return call.result(withWidth(x.shape, weight.shape[0]),
                     call.evaluator().linear(x.value, weight.value, bias, readActivation(call.arguments())));
}

val layerNormOf(Call& call) {
  const TensorArgument x = argument(call, 1, "at least one axis");
  const Value weight = vector(call, "weight", x.shape[-1]), bias = vector(call, "bias", x.shape[-1]);
  return call.result(x.shape, call.evaluator().layerNorm(x.value, weight, bias, readFloat(call.arguments(), "eps")));
}

val dropoutOf(Call& call) {
  const val& given = call.arguments();
  const TensorArgument x = *call.tensor("x");
  // Reshaped to one row, because draws depend on the position in the whole tensor.
  Evaluator& e = call.evaluator();
  return call.result(x.shape, e.dropout(e.reshape(x.value, 1, x.shape.size()), readDropoutOptions(given),
                                        {.seed = readSeed(given["seed"])}, 0));
}

val rotaryOf(Call& call) {
  const TensorArgument x = argument(call, 2, "[..., L, D]");
  const Index length = x.shape[-2], first = readIndex(call.arguments(), "firstPosition");
  const auto [dim, base, pairing] = readRotary(call.arguments(), x.shape[-1]);
  const auto tables = std::make_shared<const Rotary>(dim, length, base, pairing, 1, first);
  const Sequences sequences = Sequences::uniform(length == 0 ? 0 : x.shape.rows() / length, length);
  return call.result(x.shape, call.evaluator().rotate(*call.share(tables), x.value, sequences, 1, first));
}

struct NamedFunction {
  const char* name;
  val (*run)(Call& call);
};
constexpr NamedFunction kFunctions[] = {
    {"attention", attentionOf}, {"softmax", softmaxOf}, {"linear", linearOf},
    {"layerNorm", layerNormOf}, {"dropout", dropoutOf}, {"rotary", rotaryOf},
};

val positionalEncodingOf(double length, double dim, double base, double start) {
  return guarded([&] {
    const Shape shape{static_cast<Index>(length), static_cast<Index>(dim)};
    (void)requireRoom("positionalEncoding", shape);
    MatrixView output = arena().matrix(shape[0], shape[1]);
    positionalEncoding(base, output, 0, static_cast<Index>(start));
    return writeTensor(shape, output.data());
  });
}

/// Expands the bias that `make` computes to [H, L, S]. Does not call `make` if the result is empty or too large.
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
    if (t.shape.rank() != 2) throwShapeMismatch("table", "[buckets, H]", t.shape);
    const Index queries = readIndex(options, "queries"), keys = readIndex(options, "keys");
    return expanded(t.shape[1], queries, keys, [&](Index longest) {
      return relativeBias(readOnly(t.matrix()), longest, readIndex(options, "maxDistance"),
                          readBool(options, "bidirectional"));
    });
  });
}

/// See Core.trellisSearch.
val trellisSearchOf(int bits, const val& lengths, const val& targets, const val& steps) {
  return guarded([&] {
    const auto sizes = readArray<int32_t>(lengths);
    const auto given = readArray<float>(targets), all_steps = readArray<float>(steps);
    const auto count = static_cast<Index>(given.size());
    auto* begins = arena().take<Index>(static_cast<Index>(sizes.size()));
    double sum = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      requireAtLeast("length", sizes[i], 0);
      begins[i] = static_cast<Index>(sum);
      sum += sizes[i];
    }
    requireCount("targets", sum, count);
    requireCount("steps", static_cast<double>(all_steps.size()), count);
    auto* states = arena().take<uint16_t>(count);
    context().executor.run(static_cast<Index>(sizes.size()), context(), [&](Index i, Context& own) {
      const auto at = static_cast<size_t>(i);
      const Index begin = begins[at];
      trellisSearch(bits, sizes[at], given.data() + begin, all_steps.data() + begin, states + begin, own.arena);
    });
    return val(emscripten::typed_memory_view(static_cast<size_t>(count), states)).call<val>("slice");
  });
}

/// See Core.triangularFactor.
val triangularFactorOf(const val& matrix, double width) {
  return guarded([&] {
    const auto h = readArray<double>(matrix);
    requireCount("matrix", static_cast<double>(h.size()), static_cast<int64_t>(width * width));
    if (!triangularFactor(h.data(), static_cast<Index>(width))) return val::null();
    return val(emscripten::typed_memory_view(h.size(), h.data())).call<val>("slice");
  });
}

std::string compiler() {
  return "emscripten " + std::to_string(__EMSCRIPTEN_major__) + "." + std::to_string(__EMSCRIPTEN_minor__) + "." +
         std::to_string(__EMSCRIPTEN_tiny__) + ", clang " + __clang_version__;
}

double memoryBytes() { return static_cast<double>(__builtin_wasm_memory_size(0)) * 65536; }

/// Grows the memory, at most once, so that a block of `bytes` bytes can be allocated. If that fails, nothing happens; a
/// later allocation reports the lack of memory.
void reserveMemory(double bytes) {
  constexpr double kMost = 4.0 * 1024 * 1024 * 1024 - 65536;
  void* block = bytes > 0 && bytes < kMost ? std::malloc(static_cast<size_t>(bytes)) : nullptr;
  asm volatile("" : : "r"(block));  // prevents the optimizer from removing malloc() and free()
  std::free(block);
}

val compute(const std::string& name, const val& arguments) {
  return guarded([&] {
    InferenceCall call(arguments);
    return functionNamed(name)(call);
  });
}

}  // namespace

val (*functionNamed(const std::string& name))(Call& call) {
  for (const NamedFunction& function : kFunctions) {
    if (name == function.name) return function.run;
  }
  throwInvalid(ErrorCode::kInvalidArgument, "function", "the name of a function", name);
}

EMSCRIPTEN_BINDINGS(heed_functions) {
  emscripten::function("compute", &compute);
  emscripten::function("positionalEncoding", &positionalEncodingOf);
  emscripten::function("alibi", &alibiOf);
  emscripten::function("relativeBias", &relativeBiasOf);
  emscripten::function("trellisSearch", &trellisSearchOf);
  emscripten::function("triangularFactor", &triangularFactorOf);
  emscripten::function("compiler", &compiler);
  emscripten::function("memoryBytes", &memoryBytes);
  emscripten::function("reserveMemory", &reserveMemory);
  emscripten::function("abandonCalls", &abandonCalls);
  emscripten::function("useTallRowBlocks", &useTallRowBlocks);
}

}  // namespace heed::bindings
