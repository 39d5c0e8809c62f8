// The kernels under a stopwatch: plain exports, called from run.mjs. Every export does one call's worth of work and
// returns, as V8 tiers a function up between calls only.

#include <cmath>
#include <memory>
#include <vector>

#include "gemm/chunk.h"
#include "gemm/weights/int8_steps.h"
#include "heed/activation.h"
#include "heed/attention.h"
#include "heed/encoder.h"
#include "heed/inference_evaluator.h"
#include "heed/norm.h"

#define EXPORT(name) extern "C" __attribute__((export_name(#name)))

using namespace heed;

namespace {

#if defined(HEED_RELAXED_SIMD)
using FastInt8Step = NarrowDotStep;  // on x86 without AVX-VNNI
#else
using FastInt8Step = WideDotStep;
#endif

Context context;

/// Bell-shaped (sums of four uniform draws), as trained weights and activations are.
std::vector<float> numbers(Index count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = 12345;
  for (float& value : values) {
    value = 0;
    for (int i = 0; i < 4; ++i)
      value += static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f - 0.5f;
  }
  return values;
}

struct {
  std::vector<float> a, c, bias;
  std::vector<uint32_t> packed;
  std::unique_ptr<PackedWeight> weight;
  Activation activation;
} product;

struct {
  std::vector<float> q, k, v, out;
  Sequences sequences = Sequences::uniform(0, 0);
  Index heads;
} attend;

struct {
  std::vector<float> x, start;
  std::unique_ptr<Encoder> encoder;
  Sequences sequences = Sequences::uniform(0, 0);
} stack;

/// A step's own instructions, and no others but its broadcasts, all of one cache line: what a product would reach if
/// its operands came for nothing. Four rows by eight columns, as in a tile. That the line stays the same is kept from
/// the compiler, which would take the products out of the loop. `add` is given sums, four words and a column.
template <class Add>
int32_t runPeak(Index steps, const Add& add) {
  alignas(64) static const uint32_t line[16] = {0x3f800001, 0x3f800002, 0x3f800003, 0x3f800004};
  const uint32_t* words = line;
  const v128_t columns[] = {simd::opaqueSplat(0x3f000000), simd::opaqueSplat(0x3e800000)};
  v128_t sums[4][2];
  for (auto& row : sums) row[0] = row[1] = simd::splat(0);
#pragma clang loop unroll(disable)
  for (Index s = 0; s < steps; ++s) {
    asm("" : "+r"(words));
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 2; ++i) sums[r][i] = add(sums[r][i], words + 4 * r, columns[i]);
    }
  }
  for (auto& row : sums) sums[0][0] = wasm_i32x4_add(sums[0][0], wasm_i32x4_add(row[0], row[1]));
  return wasm_i32x4_extract_lane(sums[0][0], 0);
}

template <class Step>
int32_t runPeak(Index steps) {
  return runPeak(steps, [step = Step()](v128_t sum, const uint32_t* words, v128_t column) {
    return step.add(sum, wasm_v128_load32_splat(words), column);
  });
}

}  // namespace

/// Peak of the fp32 (0) and int8 (1) step, relaxed also of the split (2) and the narrow (3) int8 step: 8 dots each, 32
/// the last.
EXPORT(peak) int32_t peak(int kind, Index steps) {
  if (kind == 0) return runPeak<FloatStep>(steps);
#if defined(HEED_RELAXED_SIMD)
  if (kind == 3) {
    return runPeak(steps, [step = NarrowDotStep()](v128_t sum, const uint32_t* words, v128_t column) {
      v128_t pairs = simd::dot2(column, wasm_v128_load32_splat(words));
      for (int n = 1; n < 4; ++n) pairs = wasm_i16x8_add(pairs, simd::dot2(column, wasm_v128_load32_splat(words + n)));
      return step.widen(sum, pairs);
    });
  }
  return kind == 1 ? runPeak<DotStep>(steps) : runPeak<SplitDotStep>(steps);
#else
  return runPeak(steps, [](v128_t sum, const uint32_t* words, v128_t column) {
    return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(simd::load(words), column));
  });
#endif
}
/// Products in a lane of such a dot.
EXPORT(int8Group) Index int8Group() { return kInt8StepValues / kInt8StepWords; }

EXPORT(prepareProduct) void prepareProduct(Index rows, Index depth, Index out, int is_int8, int activation) {
  product.a = numbers(rows * depth);
  product.c = numbers(rows * out);
  product.bias = numbers(out);
  product.weight = PackedWeight::create(out, depth, is_int8 ? Precision::kInt8 : Precision::kFloat32);
  product.weight->write(0, out, numbers(out * depth).data());
  product.activation = static_cast<Activation>(activation);
}
EXPORT(multiply) void multiply() {
  const PackedWeight& weight = *product.weight;
  const Index rows = static_cast<Index>(product.a.size()) / weight.in();
  matmul(view(static_cast<const float*>(product.a.data()), rows, weight.in()), weight,
         {.bias = product.bias.data(), .activation = product.activation}, view(product.c.data(), rows, weight.out()),
         context);
}

/// The register tiles of a product by themselves: the left operand is packed, and the sums stay where the driver leaves
/// them.
EXPORT(prepareTiles) void prepareTiles(Index rows, Index depth, Index out, int is_int8) {
  prepareProduct(rows, depth, out, is_int8, 0);
  const LeftForm& form = product.weight->leftForm();
  product.packed.resize(static_cast<size_t>(form.words(rows, depth)));
  form.pack(view(static_cast<const float*>(product.a.data()), rows, depth), RowBlocks(rows), product.packed.data());
}
EXPORT(multiplyTiles) void multiplyTiles() {
  const PackedWeight& weight = *product.weight;
  const LeftChunk left{0, RowBlocks(static_cast<Index>(product.a.size()) / weight.in()), product.packed.data()};
  const bool is_int8 = weight.panelBytes() < weight.in() * FloatStep::kBytes;
  const auto multiply = is_int8 ? multiplyRowBlocks<FastInt8Step> : multiplyRowBlocks<FloatStep>;
  for (Index p = 0; p < weight.panels(); ++p) multiply(left, left.packed, weight, {p, p + 1}, product.c.data());
}

EXPORT(applyActivation) void applyActivation(int which) {
  activate(product.c.data(), static_cast<Index>(product.c.size()), static_cast<Activation>(which));
}
EXPORT(normalize) void normalize(Index width) {
  const Index rows = static_cast<Index>(product.c.size()) / width;
  layerNorm(view(static_cast<const float*>(product.c.data()), rows, width), product.bias.data(), product.bias.data(),
            1e-5f, view(product.c.data(), rows, width));
}

EXPORT(prepareAttention) void prepareAttention(Index count, Index length, Index heads, Index width) {
  for (auto* values : {&attend.q, &attend.k, &attend.v, &attend.out}) *values = numbers(count * length * heads * width);
  attend.sequences = Sequences::uniform(count, length);
  attend.heads = heads;
}
EXPORT(attention) void runAttention(int causal, Index window) {
  const Index rows = attend.sequences.totalRows(), width = static_cast<Index>(attend.q.size()) / rows;
  const auto in = [&](std::vector<float>& x) -> Value { return view(x.data(), rows, width); };
  AttentionOptions options;
  options.causal = causal != 0;
  if (window >= 0) options.window = window;
  attention({in(attend.q), in(attend.k), in(attend.v), attend.sequences, attend.sequences}, attend.heads, options,
            {view(attend.out.data(), rows, width)}, context);
}

EXPORT(prepareEncoder)
void prepareEncoder(Index count, Index length, Index layers, Index width, Index heads, Index inner, int is_int8) {
  stack.encoder =
      std::make_unique<Encoder>(EncoderLayerOptions{.embed_dim = width,
                                                    .num_heads = heads,
                                                    .feed_forward_dim = inner,
                                                    .activation = Activation::kGelu,
                                                    .precision = is_int8 ? Precision::kInt8 : Precision::kFloat32},
                                layers, false);
  for (const Parameter& parameter : stack.encoder->parameters()) {
    std::vector<float> values = numbers(parameter.shape.size());
    const float size = 1 / std::sqrt(static_cast<float>(parameter.shape[-1]));
    for (float& value : values) value *= size;
    parameter.write(0, parameter.shape[0], values.data());
  }
  stack.start = stack.x = numbers(count * length * width);
  stack.sequences = Sequences::uniform(count, length);
}
EXPORT(encode) void encode() {
  const Index rows = stack.sequences.totalRows(), width = static_cast<Index>(stack.x.size()) / rows;
  stack.x = stack.start;
  const Arena::Scope scope(context.arena);
  InferenceEvaluator e(context);
  stack.encoder->forward(e, view(stack.x.data(), rows, width), stack.sequences, {});
}
/// One entry of the encoder's output, so that runs can be compared.
EXPORT(probe) float probe(Index i) { return stack.x[static_cast<size_t>(i)]; }
