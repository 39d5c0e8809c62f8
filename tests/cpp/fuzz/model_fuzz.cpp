#include "fuzz/model_fuzz.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "heed/encoder_model.h"
#include "heed/pooling.h"

namespace heed::fuzz {
namespace {

EncoderModelConfig configOf(Choices& choose) {
  EncoderModelConfig c{};
  c.vocab_size = choose.extent(30);
  c.layer.attention.num_heads = choose.extent(4);
  const bool divides = choose.byte() < 240 && c.layer.attention.num_heads > 0 && c.layer.attention.num_heads < 100;
  c.layer.embed_dim = divides ? c.layer.attention.num_heads * 2 * (1 + choose.byte() % 4) : choose.extent(24);
  if (choose.byte() < 50) c.embedding_dim = choose.extent(12);
  c.num_layers = choose.byte() < 250 ? choose.length(3) : choose.extent(3);
  c.layer.feed_forward.feed_forward_dim = choose.extent(33);
  if (choose.byte() < 80) c.position_offset = choose.byte() < 240 ? 2 : choose.extent(9);
  c.max_positions = choose.byte() < 250 ? 3 + choose.length(20) : choose.extent(20);
  c.type_vocab_size = choose.byte() < 250 ? choose.length(2) : choose.extent(3);
  c.layer.feed_forward.activation = choose.activation();
  if (choose.byte() < 20) c.layer.norm.eps = choose.number();
  c.positions = static_cast<Positions>(choose.byte() % 5);
  if (choose.byte() < 80) c.layer.attention.key_value_heads = choose.byte() < 200 ? 1 : choose.extent(4);
  if (choose.byte() < 60) c.layer.attention.key_dim = choose.extent(9);
  c.causal = choose.byte() < 60;
  c.layer.norm.rms = choose.byte() < 80;
  c.layer.attention.qk_norm = choose.byte() < 80;
  c.layer.attention.value_norm = choose.byte() < 60;
  c.layer.output_norms = choose.byte() < 80;
  if (choose.byte() < 20) c.layer.norm.weight_offset = choose.number();
  if (choose.byte() < 20) c.attention_scale = choose.number();
  if (choose.byte() < 20) c.embedding_scale = choose.number();
  if (c.positions == Positions::kDisentangled) {
    c.relative_buckets = choose.byte() < 240 ? 6 : choose.extent(40);
    c.relative_distance = choose.byte() < 240 ? 9 : choose.extent(130);
    c.relative_norm = choose.flag();
    c.position_embeddings = choose.flag();
    c.layer.attention.position_projections = choose.flag();
  }
  if (choose.byte() < 40) c.convolution = choose.byte() < 240 ? 3 : choose.extent(70);
  c.layer.attention.joint_qk_norm = choose.byte() < 40;
  c.layer.nested_norm = choose.byte() < 40;
  if (c.positions == Positions::kRelative) {
    c.relative_buckets = choose.byte() < 240 ? 8 : choose.extent(40);
    if (choose.flag()) c.relative_distance = choose.extent(130);
    c.relative_per_layer = choose.flag();
    c.position_embeddings = choose.flag();
  }
  if (c.positions == Positions::kRotary) {
    const Index width =
        c.layer.attention.num_heads > 0 && c.layer.embed_dim > 0 ? c.layer.embed_dim / c.layer.attention.num_heads : 2;
    c.rotary_dim = choose.byte() < 240 ? width - width % 2 : choose.extent(9);
    if (choose.flag()) c.rotary_base = static_cast<double>(choose.number());
    if (choose.flag()) c.local_rotary_base = 100;
    c.rotary_interleaved = choose.byte() < 60;
    c.rotary_values = choose.byte() < 60;
    if (choose.byte() < 40) c.rotary_factor = static_cast<double>(choose.number());
    if (choose.byte() < 40) c.local_rotary_factor = static_cast<double>(choose.number());
    for (auto* frequencies : {&c.rotary_frequencies, &c.local_rotary_frequencies}) {
      if (choose.byte() >= 60) continue;
      const Index pairs = choose.byte() < 240 ? std::clamp<Index>(c.rotary_dim / 2, 0, 64) : choose.length(9);
      for (Index k = 0; k < pairs; ++k) frequencies->push_back(static_cast<double>(choose.number()));
    }
  }
  if (choose.byte() < 50) c.local_head_dim = choose.byte() < 240 ? 2 : choose.extent(9);
  if (choose.byte() < 50) c.local_key_value_heads = choose.byte() < 200 ? 1 : choose.extent(4);
  if (choose.byte() < 50) c.layer_input_dim = choose.extent(9);
  if (choose.byte() < 50) c.output_dim = choose.extent(9);
  c.projection_first = choose.byte() < 40;
  if (choose.byte() < 25) {
    c.adapter_tasks = choose.extent(3);
    c.adapter_rank = choose.extent(3);
    c.adapter_scale = choose.number();
  }
  if (choose.byte() < 80) c.window = choose.byte() < 240 ? choose.length(5) : choose.extent(5);
  if (choose.byte() < 80) {
    c.local_layers.resize(
        static_cast<size_t>(choose.byte() < 240 ? std::clamp<Index>(c.num_layers, 0, 8) : choose.length(4)));
    for (size_t i = 0; i < c.local_layers.size(); ++i) c.local_layers[i] = choose.flag();
  }
  c.layer.norm_first = choose.flag();
  c.embedding_norm = choose.flag();
  c.final_norm = choose.flag();
  c.layer.bias = choose.flag();
  c.layer.norm.bias = choose.flag();
  c.layer.feed_forward.gated = choose.flag();
  c.layer.feed_forward.gate_second = choose.flag();
  c.layer.feed_forward.linear1_bias = choose.byte() < 200;
  c.first_attention_norm = choose.byte() < 200;
  c.shared_layers = choose.byte() < 60;
  if (choose.byte() < 80) c.layer.precision = Precision::kInt8;
  return c;
}

/// Whether the angles of rotary positions and their factors are of realistic magnitude.
bool tameAngles(const EncoderModelConfig& c) {
  const auto all = [](std::span<const double> values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::abs(value) < 10; });
  };
  return all(c.rotary_frequencies) && all(c.local_rotary_frequencies) &&
         all(std::array{c.rotary_factor, c.local_rotary_factor});
}

/// Writes every parameter in ranges of rows, as fp32 or, if it has an int8 format, as int8 with scales. Returns whether
/// all values are finite and of realistic magnitude.
bool writeWeights(Choices& choose, EncoderModel& model) {
  bool tame = true;
  for (const Parameter& p : model.parameters()) {
    const Index rows = p.shape[0], width = rows > 0 ? p.shape.size() / rows : 0;
    for (Index first = 0; first < rows;) {
      const Index count = std::min<Index>(rows - first, 1 + choose.length(40));
      const auto size = static_cast<size_t>(count * width);
      Generator generator(choose.byte());
      if (p.hasStorage() && choose.flag()) {
        std::vector<signed char> values(size);
        for (signed char& v : values) v = static_cast<signed char>(generator.next() >> 24);
        std::vector<float> scales(static_cast<size_t>(count));
        for (float& s : scales) {
          s = choose.byte() < 250 ? 0.01f : choose.number();
          tame = tame && std::abs(s) < 10;
        }
        std::vector<float> row(static_cast<size_t>(p.rowSize()));
        p.writeCoded(first, count,
                     {RowCode::kInt8, p.rowSize(), reinterpret_cast<const uint8_t*>(values.data()), scales.data()},
                     row.data());
      } else {
        std::vector<float> values(size);
        for (float& v : values) v = generator.uniform() - 0.5f;
        if (choose.byte() < 6 && size > 0) {
          values[choose.byte() % size] = choose.number();
          for (const float v : values) tame = tame && std::abs(v) < 10;
        }
        p.write(first, count, values.data());
      }
      first += count;
    }
    std::vector<float> back(static_cast<size_t>(p.shape.size()));
    if (!back.empty()) p.read(0, rows, back.data());
  }
  return tame;
}

TokenBatch batchOf(Choices& choose, const EncoderModelConfig& c) {
  TokenBatch batch{.ids = {}, .token_types = {}, .positions = {}, .sequences = choose.sequences(choose.length(4), 9)};
  const Index rows = batch.sequences.totalRows();
  const auto fill = [&](std::vector<int32_t>& values, Index limit) {
    const Index count = choose.byte() < 252 ? rows : choose.length(9);
    for (Index i = 0; i < count; ++i) {
      const uint8_t b = choose.byte();
      values.push_back(b < 254 ? static_cast<int32_t>(b % std::max<Index>(limit, 1)) : b == 254 ? -1 : 1 << 30);
    }
  };
  fill(batch.ids, c.vocab_size);
  if (choose.byte() < 100) fill(batch.token_types, c.type_vocab_size);
  if (choose.byte() < 60) fill(batch.positions, c.max_positions);
  if (c.adapter_tasks > 0 && choose.flag()) batch.task = choose.byte() < 250 ? choose.length(3) - 1 : 1 << 30;
  return batch;
}

RowMajorMatrix run(EncoderModel& model, const TokenBatch& batch, std::span<const float> scale, bool tame,
                   Context& context) {
  const Arena::Scope scope(context.arena);
  InferenceEvaluator e(context);
  Value x = model.embed(e, batch);
  const PassInputs inputs = model.inputs(e, batch.sequences, x);
  const Value head_mask =
      scale.empty() ? Value() : Value::constant(view(scale.data(), 1, static_cast<Index>(scale.size())));
  const Index heads = model.config().layer.attention.num_heads;
  std::vector<float> weights(static_cast<size_t>(attentionWeightsSize(heads, batch.sequences, batch.sequences)));
  for (Index i = 0; i < model.numLayers(); ++i) {
    x = model.runLayer(e, i, x, batch.sequences, inputs, head_mask, weights.data(), {}, batch.task);
    if (!tame) continue;
    size_t at = 0;
    for (Index n = 0; n < batch.sequences.count(); ++n) {
      for (Index row = 0; row < heads * batch.sequences.length(n); ++row) {
        double sum = 0;
        for (Index j = 0; j < batch.sequences.length(n); ++j) sum += static_cast<double>(weights[at++]);
        if (!(std::abs(sum - 1) <= 1e-4)) broken("a token attends with weights that sum to one");
      }
    }
  }
  return model.applyFinalNorm(e, x).values();
}

/// A batch that contains only text n.
TokenBatch alone(const TokenBatch& batch, Index n) {
  const auto part = [&](const std::vector<int32_t>& values) {
    if (values.empty()) return values;
    return std::vector<int32_t>(values.begin() + batch.sequences.begin(n), values.begin() + batch.sequences.end(n));
  };
  return {.ids = part(batch.ids),
          .token_types = part(batch.token_types),
          .positions = part(batch.positions),
          .sequences = Sequences::uniform(1, batch.sequences.length(n)),
          .task = batch.task};
}

void poolAll(Choices& choose, const RowMajorMatrix& hidden, const Sequences& sequences, bool tame) {
  std::vector<Index> skipped;
  if (choose.flag()) {
    for (Index n = 0; n < sequences.count(); ++n) skipped.push_back(choose.length(4));
    if (choose.byte() < 4) skipped.push_back(1);
  }
  constexpr std::array kAll{Pooling::kMean,           Pooling::kCls,         Pooling::kLast, Pooling::kMax,
                            Pooling::kMeanSqrtLength, Pooling::kWeightedMean};
  for (const Pooling pooling : kAll) {
    RowMajorMatrix vectors(sequences.count(), hidden.cols());
    pool(window(hidden), sequences, skipped, pooling, window(vectors));
    if (tame && !vectors.allFinite()) broken("finite rows pool to finite vectors");
  }
}

/// Tries widths, heads and rows whose products exceed 32 bits. Sizes that would fit are allocated only if they are
/// small.
void fuzzSizes(Choices& choose) {
  const auto power = [&](int most) { return Index{1} << choose.byte() % (most + 1); };
  EncoderModelConfig c{};
  c.vocab_size = 1 + choose.length(8);
  c.layer.embed_dim = power(16);
  c.layer.attention.num_heads = power(16);
  c.layer.attention.key_dim = power(16);
  c.layer.feed_forward.feed_forward_dim = c.max_positions = 1;
  const EncoderModel model(c);
  const auto product = [](Index a, Index b) { return static_cast<double>(a) * static_cast<double>(b); };
  if (static_cast<double>(model.queryWidth()) != product(c.layer.attention.num_heads, c.layer.attention.key_dim))
    broken("the width of all heads is their product");
  const Index rows = power(30) - choose.byte() % 2;
  const double size = product(rows, c.layer.embed_dim);
  if (size > (1 << 20) && size < (1 << 30)) return;
  const std::vector<float> hidden = model.hiddenStates(Sequences::uniform(1, rows));
  if (static_cast<double>(hidden.size()) != size) broken("hidden states for all rows");
}

}  // namespace

void fuzzModel(Choices& choose, Context& context) {
  if (choose.byte() < 8) return fuzzSizes(choose);
  const EncoderModelConfig config = configOf(choose);
  EncoderModel model(config);
  // A norm that divides by a tiny number can turn finite numbers into infinities.
  const auto moderate = [](float scale) { return std::abs(scale) < 10; };
  const bool tame = writeWeights(choose, model) && config.layer.norm.eps > 1e-13f &&
                    moderate(config.layer.norm.weight_offset) && moderate(config.attention_scale) &&
                    moderate(config.embedding_scale) && moderate(config.adapter_scale) && tameAngles(config);
  const TokenBatch batch = batchOf(choose, config);
  std::vector<float> scale;
  if (choose.byte() < 60) {
    const Index count = choose.byte() < 250 ? config.layer.attention.num_heads : choose.length(9);
    for (Index h = 0; h < count; ++h) scale.push_back(static_cast<float>(choose.byte()) / 64 - 1);
  }
  const RowMajorMatrix hidden = run(model, batch, scale, tame, context);
  if (tame && !hidden.allFinite()) broken("finite weights give finite numbers");
  poolAll(choose, hidden, batch.sequences, tame);

  if (tame && batch.sequences.count() > 1) {
    const Index n = choose.byte() % batch.sequences.count();
    const RowMajorMatrix single = run(model, alone(batch, n), scale, tame, context);
    const auto rows = hidden.middleRows(batch.sequences.begin(n), batch.sequences.length(n));
    if (!(single.array() == rows.array()).all()) broken("a text's rows do not depend on the texts beside it");
  }
  const Index width = config.embedding_dim > 0 ? config.embedding_dim : config.layer.embed_dim;
  const RowMajorMatrix x = choose.matrix(choose.length(3), choose.byte() < 250 ? width : choose.length(9));
  InferenceEvaluator e(context);
  const RowMajorMatrix logits = model.wordLogits(e, valueOf(x)).values();
  if (tame && !logits.allFinite()) broken("finite weights give finite logits");
}

}  // namespace heed::fuzz
