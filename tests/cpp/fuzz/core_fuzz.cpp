#include "fuzz/core_fuzz.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "core/coded_rows.h"
#include "core/encoded_rows.h"
#include "fuzz/choices.h"
#include "fuzz/model_fuzz.h"
#include "heed/decoder.h"
#include "heed/module.h"
#include "layer_options.h"

namespace heed::fuzz {
namespace {

/// Options of one attention call and the data that they refer to.
struct Call {
  AttentionOptions options;
  std::vector<uint8_t> allowed;
  std::vector<float> added;
  std::vector<float> factors;
  std::vector<MaskTensor> masks;
  std::optional<PositionBias> bias;
  std::optional<Rotary> rotary;
  bool finite = true;  ///< whether finite inputs must give finite outputs

  Call(Choices& choose, Index count, Index heads, Index queries, Index keys) {
    const std::array<Index, 4> target{count, heads, queries, keys};
    std::vector<Index> extents;
    for (size_t axis = choose.byte() % 5; axis < 4; ++axis)
      extents.push_back(choose.flag() ? target[axis] : choose.byte() < 250 ? 1 : 2);
    const Shape shape(extents);
    const auto size = static_cast<size_t>(shape.size());
    options.causal = choose.flag();
    if (choose.flag()) options.window = choose.byte() < 250 ? choose.length(9) : choose.extent(9);
    if (choose.flag()) options.query_offset = choose.byte() < 250 ? choose.length(9) : -1;
    if (choose.flag()) {
      options.scale = choose.number();
      finite = finite && std::abs(*options.scale) < 1e3f;
    }
    if (choose.flag()) {
      Generator generator(choose.byte());
      for (size_t i = 0; i < size; ++i) allowed.push_back(generator.uniform() < 0.6f);
      masks.push_back({"mask", Mask::Kind::kBoolean, allowed.data(), shape});
    }
    if (choose.flag()) {
      for (size_t i = 0; i < size; ++i) {
        added.push_back(choose.flag() ? -std::numeric_limits<float>::infinity() : choose.number());
        finite = finite && !(std::isnan(added.back()) || added.back() > 1e6f);
      }
      masks.push_back({"mask", Mask::Kind::kAdditive, added.data(), shape});
    }
    options.masks = masks;
    if (choose.flag()) {
      bias = alibiBias(choose.flag() ? heads : choose.extent(8), choose.length(12));
      options.bias = bias->value();
    }
    if (choose.flag()) {
      const Index rows = choose.flag() ? 1 : choose.flag() ? count : choose.length(3);
      const Index columns = choose.byte() < 250 ? heads : choose.length(9);
      for (Index i = 0; i < rows * columns; ++i) factors.push_back(static_cast<float>(choose.byte()) / 64 - 1);
      options.head_mask = view(factors.data(), rows, columns);
    }
    if (choose.byte() < 60) {
      rotary.emplace(choose.byte() < 200 ? 2 : choose.extent(8), choose.byte() < 200 ? 64 : choose.length(20), 100,
                     choose.flag() ? Rotary::Pairing::kHalfSplit : Rotary::Pairing::kInterleaved);
      options.rotary = &*rotary;
    }
  }
};

using test::LayerOptions;

LayerOptions layerOptions(Choices& choose) {
  LayerOptions o{};
  o.num_heads = choose.extent(4);
  const bool divides = choose.byte() < 220 && o.num_heads > 0 && o.num_heads < 100;
  o.embed_dim = divides ? o.num_heads * (1 + choose.byte() % 6) : choose.extent(24);
  o.feed_forward_dim = choose.extent(33);
  if (choose.byte() < 60) o.key_dim = choose.extent(9);
  if (choose.byte() < 60) o.value_dim = choose.extent(9);
  o.activation = choose.activation();
  o.norm_first = choose.flag();
  o.dropout = choose.rate();
  o.bias = choose.flag();
  o.norm_bias = choose.flag();
  o.gated = choose.flag();
  o.attention_norm = choose.byte() < 200;
  if (choose.byte() < 20) o.eps = choose.number();
  if (choose.byte() < 60) o.precision = Precision::kInt8;
  return o;
}

/// Usually a matching width, sometimes another one.
Index width(Choices& choose, Index fits) { return choose.byte() < 240 ? fits : choose.length(30); }

void requireFinite(const RowMajorMatrix& m, bool finite) {
  if (finite && !m.allFinite()) broken("finite inputs give finite outputs");
}

void requireSums(const std::vector<float>& weights, const Sequences& queries, const Sequences& keys, Index heads,
                 bool finite) {
  if (!finite) return;
  size_t at = 0;
  for (Index n = 0; n < queries.count(); ++n) {
    for (Index row = 0; row < heads * queries.length(n); ++row) {
      double sum = 0;
      for (Index j = 0; j < keys.length(n); ++j) sum += static_cast<double>(weights[at++]);
      if (std::abs(sum) > 1e-4 && std::abs(sum - 1) > 1e-4) broken("a row of weights sums to one or is all zeros");
    }
  }
}

void fuzzAttention(Choices& choose, Context& context) {
  MultiHeadAttentionOptions o{};
  const LayerOptions layer = layerOptions(choose);
  o.embed_dim = layer.embed_dim;
  o.num_heads = layer.num_heads;
  o.key_dim = layer.key_dim;
  o.value_dim = layer.value_dim;
  if (choose.flag()) o.key_input_dim = choose.extent(12);
  if (choose.flag()) o.value_input_dim = choose.extent(12);
  o.bias = layer.bias;
  o.query_activation = layer.activation;
  o.key_activation = choose.activation();
  o.value_activation = choose.activation();
  o.dropout = layer.dropout;
  o.precision = layer.precision;
  MultiHeadAttention mha(o);
  initialize(mha, choose.byte());
  mha.setTraining(choose.flag());
  const Index count = choose.length(3);
  const Sequences queries = choose.sequences(count, 11), keys = choose.sequences(choose.byte() < 250 ? count : 2, 11);
  Call call(choose, count, o.num_heads, queries.maxLength(), keys.maxLength());
  const RowMajorMatrix q = choose.matrix(queries.totalRows(), width(choose, o.embed_dim)),
                       k = choose.matrix(keys.totalRows(), width(choose, mha.options().key_input_dim)),
                       v = choose.matrix(keys.totalRows(), width(choose, mha.options().value_input_dim));
  std::vector<float> weights(
      static_cast<size_t>(count == keys.count() ? attentionWeightsSize(o.num_heads, queries, keys) : 0));
  InferenceEvaluator e(context);
  const RowMajorMatrix y =
      mha.forward(e, {valueOf(q), valueOf(k), valueOf(v), queries, keys}, call.options, weights.data()).values();
  requireFinite(y, call.finite);
  requireSums(weights, queries, keys, o.num_heads, call.finite);
}

void fuzzEncoder(Choices& choose, Context& context) {
  const LayerOptions o = layerOptions(choose);
  Encoder encoder(o, choose.byte() < 250 ? choose.length(2) : choose.flag() ? -1 : Index{1} << 30, choose.flag());
  initialize(encoder, choose.byte());
  encoder.setTraining(choose.flag());
  const Index count = choose.length(3);
  const Sequences sequences = choose.sequences(count, 11);
  Call call(choose, count, o.num_heads, sequences.maxLength(), sequences.maxLength());
  const RowMajorMatrix x = choose.matrix(sequences.totalRows(), width(choose, o.embed_dim));
  InferenceEvaluator e(context);
  const RowMajorMatrix y = encoder.forward(e, e.copy(valueOf(x)), sequences, call.options).values();
  requireFinite(y, call.finite && o.eps > 1e-12f);
}

void fuzzDecoder(Choices& choose, Context& context) {
  const LayerOptions o = layerOptions(choose);
  Decoder decoder(o, 1 + choose.length(1), choose.flag());
  initialize(decoder, choose.byte());
  decoder.setTraining(choose.flag());
  const Sequences memories = Sequences::uniform(1, choose.length(9)), targets = Sequences::uniform(1, choose.length(9));
  Call self(choose, 1, o.num_heads, targets.maxLength(), targets.maxLength()),
      cross(choose, 1, o.num_heads, targets.maxLength(), memories.maxLength());
  DecoderCallOptions options{.self = self.options, .memory = cross.options};
  const RowMajorMatrix target = choose.matrix(targets.totalRows(), width(choose, o.embed_dim)),
                       memory = choose.matrix(memories.totalRows(), width(choose, o.embed_dim));
  InferenceEvaluator e(context);
  const auto forward = [&]() -> RowMajorMatrix {
    return decoder.forward(e, {e.copy(valueOf(target)), valueOf(memory), targets, memories}, options).values();
  };
  RowMajorMatrix y = forward(), steps(target.rows(), target.cols());
  const bool finite = self.finite && cross.finite && o.eps > 1e-12f;
  requireFinite(y, finite);

  // A causal pass must equal steps of any size, in fp32 (int8 quantizes its inputs, which magnifies rounding errors).
  options = {};
  options.self.causal = true;
  decoder.setTraining(false);
  y = forward();
  Decoder::Cache cache = decoder.makeCache(valueOf(memory), context);
  for (Index begin = 0; begin < target.rows();) {
    const Index count = std::min<Index>(1 + choose.length(3), target.rows() - begin);
    const RowMajorMatrix rows = target.middleRows(begin, count);
    steps.middleRows(begin, count) = decoder.step(e, e.copy(valueOf(rows)), cache, options).values();
    begin += count;
  }
  if (!finite || o.precision == Precision::kInt8 || o.eps < 1e-6f) return;
  for (Index i = 0; i < y.size(); ++i) {
    if (!(std::abs(steps.data()[i] - y.data()[i]) <= 1e-3f + 1e-3f * std::abs(y.data()[i])))
      broken("steps equal the full causal pass");
  }
}

void fuzzPieces(Choices& choose, Context& context) {
  const RowMajorMatrix x = choose.matrix(choose.length(9), choose.length(12));
  RowMajorMatrix y(x.rows(), x.cols());
  switch (choose.byte() % 6) {
    case 0: {
      LayerNorm norm({.normalized_shape = width(choose, x.cols()),
                      .eps = choose.flag() ? 1e-5f : choose.number(),
                      .elementwise_affine = choose.flag(),
                      .bias = choose.flag()});
      return norm.forward(window(x), window(y));
    }
    case 1: {
      BatchNorm norm({.num_features = width(choose, x.cols()), .eps = choose.flag() ? 1e-5f : choose.number()});
      return norm.forward(window(x), window(y));
    }
    case 2: {
      const DropoutKey key{.seed = choose.byte()};
      const float p = choose.rate();
      const DropoutScaling scaling = choose.flag() ? DropoutScaling::kNone : DropoutScaling::kInverted;
      return dropout(window(x), {.p = p, .scaling = scaling}, key, window(y));
    }
    case 3: {
      const PositionalEncoding encoding(
          {.embed_dim = width(choose, x.cols()),
           .max_length = choose.extent(12),
           .base = static_cast<double>(choose.number()),
           .mode = choose.flag() ? PositionalEncodingOptions::Mode::kConcat : PositionalEncodingOptions::Mode::kAdd,
           .learned = choose.flag()});
      RowMajorMatrix out(x.rows(), encoding.outputWidth(x.cols()));
      return encoding.forward(window(x), Sequences::uniform(1, x.rows()), window(out));
    }
    case 4: {
      Linear layer({.in_features = width(choose, x.cols()),
                    .out_features = choose.extent(40),
                    .bias = choose.flag(),
                    .activation = choose.activation(),
                    .precision = choose.flag() ? Precision::kInt8 : Precision::kFloat32});
      initialize(layer, choose.byte());
      InferenceEvaluator e(context);
      return requireFinite(layer.forward(e, Value::constant(window(x))).values(), true);
    }
    default: {
      const PositionBias bias = relativeBias(window(x), choose.length(40), choose.extent(200), choose.flag());
      if (static_cast<Index>(bias.values.size()) != x.cols() * (2 * bias.max_distance + 1))
        broken("a bias for every head and distance");
    }
  }
}

/// Rows of a downloaded file, of any type and with any scales, for a matrix, a vector or a table.
void fuzzEncodedRows(Choices& choose, Context& context) {
  constexpr const char* kTypes[] = {"F32",
                                    "F16",
                                    "BF16",
                                    "I8",
                                    "rotated I8",
                                    "Hadamard I8",
                                    "int4",
                                    "trellis2",
                                    "trellis3",
                                    "trellis4",
                                    "trellis2columns",
                                    "trellis3columns",
                                    "trellis4columns",
                                    "int4columns"};
  constexpr RowCode kCodes[] = {RowCode::kNone, RowCode::kInt4, RowCode::kTrellis2, RowCode::kTrellis3,
                                RowCode::kTrellis4};
  const Index rows = choose.length(9), width = choose.length(40);
  Linear linear({.in_features = std::max<Index>(width, 1),
                 .out_features = std::max<Index>(rows, 1),
                 .precision = choose.flag() ? Precision::kInt8 : Precision::kFloat32});
  std::vector<float> plain(static_cast<size_t>(rows * width));
  std::unique_ptr<CodedTable> table;
  std::vector<Parameter> all = linear.parameters();
  all.push_back(plainParameter("plain", {rows, width}, plain.data(), ParameterKind::kWeight, {}));
  if (const RowCode code = kCodes[choose.byte() % std::size(kCodes)]; code != RowCode::kNone) {
    table = std::make_unique<CodedTable>(code, rows, width);
    all.push_back({.name = "table", .shape = {rows, width}, .initial = {}, .parts = {{rows, nullptr, table.get()}}});
  }
  const Parameter& parameter = all[choose.byte() % all.size()];
  const std::string_view type = kTypes[choose.byte() % std::size(kTypes)];
  const bool fits = choose.byte() < 230;
  const Index count = fits ? choose.length(parameter.rows()) : choose.length(12), own = parameter.rowSize();
  const RowCode code = type.starts_with("int4")       ? RowCode::kInt4
                       : type.starts_with("trellis2") ? RowCode::kTrellis2
                       : type.starts_with("trellis3") ? RowCode::kTrellis3
                       : type.starts_with("trellis4") ? RowCode::kTrellis4
                                                      : RowCode::kNone;
  const Index row_bytes = code != RowCode::kNone ? codedRowBytes(code, own)
                                                 : own * (type == "F32"          ? 4
                                                          : type.ends_with("I8") ? 1
                                                                                 : 2);
  std::vector<uint8_t> bytes(static_cast<size_t>(count * row_bytes + (fits ? 0 : choose.length(3))));
  for (uint8_t& byte : bytes) byte = choose.byte();
  Index scales = type.ends_with("I8") || code != RowCode::kNone ? count : 0;
  if (trellisBits(code) != 0) scales += own;
  if (type.ends_with("columns")) scales += 3 * choose.length(4);
  if (!fits) scales += choose.length(2);
  std::vector<float> numbers(static_cast<size_t>(scales));
  for (float& number : numbers) number = choose.number();
  const int64_t first = fits ? choose.length(parameter.rows() - count) : int64_t{choose.extent(9)};
  writeEncodedRows(parameter, first,
                   {.type = type,
                    .bytes = static_cast<int64_t>(bytes.size()),
                    .scales = numbers,
                    .copy = [&](int64_t begin, Index size,
                                std::byte* out) { std::memcpy(out, bytes.data() + begin, static_cast<size_t>(size)); }},
                   context.arena);
  std::vector<float> read(static_cast<size_t>(parameter.shape.size()));
  parameter.read(0, parameter.rows(), read.data());
}

/// Row counts up to 2^20, whose products with other sizes exceed 32 bits. Each row must give the same result as in a
/// call with this row only.
void fuzzManyRows(Choices& choose, Context& context) {
  const Index rows = (Index{1} << (12 + choose.byte() % 9)) - choose.byte() % 3, in = 1 + choose.byte() % 3,
              out = 1 + choose.byte() % 3;
  Linear layer({.in_features = in,
                .out_features = out,
                .activation = choose.activation(),
                .precision = choose.flag() ? Precision::kInt8 : Precision::kFloat32});
  initialize(layer, choose.byte());
  const RowMajorMatrix x = choose.matrix(rows, in);
  InferenceEvaluator e(context);
  const Value all = layer.forward(e, Value::constant(window(x)));
  const Index row = (Index{choose.byte()} << 12 | choose.byte()) % rows;
  const Value one = layer.forward(e, Value::constant(view(x.data() + row * in, 1, in)));
  if (!(one.values().array() == all.values().row(row).array()).all()) broken("a row of many is the row alone");
  // Many queries and few keys. Each query must give the same result as in a call with this query only.
  const RowMajorMatrix keys = choose.matrix(1 + choose.length(4), in);
  RowMajorMatrix attended(rows, in), alone(1, in);
  AttentionOptions options;
  if (choose.flag()) options.dropout = 0.5f;
  const Sequences some = Sequences::uniform(1, keys.rows());
  attention({valueOf(x), valueOf(keys), valueOf(keys), Sequences::uniform(1, rows), some}, 1, options,
            {window(attended), nullptr}, context);
  options.query_offset = row;
  const Value query = Value::constant(view(x.data() + row * in, 1, in));
  attention({query, valueOf(keys), valueOf(keys), Sequences::uniform(1, 1), some}, 1, options, {window(alone), nullptr},
            context);
  if (!(alone.array() == attended.row(row).array()).all()) broken("a query of many is the query alone");
}

}  // namespace
}  // namespace heed::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heed;
  using namespace heed::fuzz;
  static Context context;
  Choices choose(data, size);
  const Arena::Scope scope(context.arena);
  try {
    switch (choose.byte() % 7) {
      case 0:
        fuzzAttention(choose, context);
        break;
      case 1:
        fuzzEncoder(choose, context);
        break;
      case 2:
        fuzzDecoder(choose, context);
        break;
      case 3:
      case 4:
        fuzzModel(choose, context);
        break;
      case 5:
        fuzzEncodedRows(choose, context);
        break;
      default:
        if (choose.byte() < 4) {
          fuzzManyRows(choose, context);
        } else {
          fuzzPieces(choose, context);
        }
    }
  } catch (const Error& error) {
    const std::string_view message = error.what();
    const auto says = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
    const bool is_supported = error.code() != ErrorCode::kUnsupported;  // otherwise no other value may be valid
    if (!says(": ") || (is_supported && !(says(": expected ") && says(", got "))))
      broken(("an error says what is legal and what it got: " + std::string(message)).c_str());
  }
  return 0;
}
