#include "heed/decoder.h"

namespace heed {

DecoderLayer::DecoderLayer(const EncoderLayerOptions& o)
    : options_(o),
      self_attn_({.embed_dim = o.embed_dim, .num_heads = o.num_heads, .key_dim = o.key_dim, .value_dim = o.value_dim, .bias = o.bias, .dropout = o.dropout, .precision = o.precision}),
      multihead_attn_({.embed_dim = o.embed_dim, .num_heads = o.num_heads, .key_dim = o.key_dim, .value_dim = o.value_dim, .bias = o.bias, .dropout = o.dropout, .precision = o.precision}),
      feed_forward_({.embed_dim = o.embed_dim,
                     .feed_forward_dim = o.feed_forward_dim,
                     .activation = o.activation,
                     .dropout = o.dropout,
                     .bias = o.bias,
                     .gated = o.gated,
                     .precision = o.precision}),
      norm1_({.normalized_shape = o.embed_dim, .eps = o.eps, .bias = o.norm_bias}),
      norm2_({.normalized_shape = o.embed_dim, .eps = o.eps, .bias = o.norm_bias}),
      norm3_({.normalized_shape = o.embed_dim, .eps = o.eps, .bias = o.norm_bias}),
      generator_(0) {}

template <class SelfAttention, class CrossAttention>
void DecoderLayer::run(ConstMatrixView target, SelfAttention self, CrossAttention cross, MatrixView output, Arena& arena) {
  const Arena::Scope scope(arena);
  const bool draws = training() && options_.dropout > 0;
  // x <- x + Dropout(f(LN(x))) or LN(x + Dropout(f(x))), the norm before or after.
  MatrixView x = arena.matrix(target.rows(), target.cols());
  MatrixView normed = arena.matrix(target.rows(), target.cols());
  MatrixView y = arena.matrix(target.rows(), target.cols());
  x = target;
  const auto block = [&](const LayerNorm& norm, auto f) {
    if (options_.norm_first) norm.forward(readOnly(x), normed);
    f(options_.norm_first ? readOnly(normed) : readOnly(x), y);
    if (draws) dropout(readOnly(y), options_.dropout, DropoutScaling::kInverted, generator_, y);
    x += y;
    if (!options_.norm_first) norm.forward(readOnly(x), x);
  };
  block(norm1_, self);
  block(norm2_, cross);
  block(norm3_, [&](ConstMatrixView in, MatrixView out) { feed_forward_.forward(in, out, arena); });
  output = x;
}

void DecoderLayer::forward(ConstMatrixView target, ConstMatrixView memory, const Sequences& targets, const Sequences& memories,
                           const DecoderCallOptions& options, MatrixView output, DecoderWeights weights, Arena& arena) {
  run(
      target,
      [&](ConstMatrixView x, MatrixView y) { self_attn_.forward(x, x, x, targets, targets, options.self, y, weights.self, arena); },
      [&](ConstMatrixView x, MatrixView y) {
        multihead_attn_.forward(x, memory, memory, targets, memories, options.memory, y, weights.memory, arena);
      },
      output, arena);
}

DecoderLayer::Cache DecoderLayer::makeCache(ConstMatrixView memory, Arena& arena) {
  Cache cache;
  const auto size = static_cast<size_t>(memory.rows() * options_.embed_dim);
  cache.memory_key.resize(size);
  cache.memory_value.resize(size);
  multihead_attn_.projectKeyValue(memory, memory, view(cache.memory_key.data(), memory.rows(), options_.embed_dim),
                                  view(cache.memory_value.data(), memory.rows(), options_.embed_dim), arena);
  return cache;
}

void DecoderLayer::step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output, DecoderWeights weights,
                        Arena& arena) {
  const Index width = options_.embed_dim, rows = target.rows();
  const Index before = static_cast<Index>(cache.self_key.size()) / width;
  const Index memory_rows = static_cast<Index>(cache.memory_key.size()) / width;
  const Sequences queries = Sequences::uniform(1, rows);
  run(
      target,
      [&](ConstMatrixView x, MatrixView y) {
        const Arena::Scope scope(arena);
        MatrixView q = arena.matrix(rows, width);
        cache.self_key.resize(static_cast<size_t>((before + rows) * width));
        cache.self_value.resize(cache.self_key.size());
        self_attn_.projectQuery(x, q, arena);
        self_attn_.projectKeyValue(x, x, view(cache.self_key.data() + before * width, rows, width),
                                   view(cache.self_value.data() + before * width, rows, width), arena);
        AttentionOptions call = options.self;
        call.causal = true;
        call.query_offset = before;
        const ConstMatrixView k = view(static_cast<const float*>(cache.self_key.data()), before + rows, width);
        const ConstMatrixView v = view(static_cast<const float*>(cache.self_value.data()), before + rows, width);
        self_attn_.attend(readOnly(q), k, v, queries, Sequences::uniform(1, before + rows), call, y, weights.self, arena);
      },
      [&](ConstMatrixView x, MatrixView y) {
        const Arena::Scope scope(arena);
        MatrixView q = arena.matrix(rows, width);
        multihead_attn_.projectQuery(x, q, arena);
        const ConstMatrixView k = view(static_cast<const float*>(cache.memory_key.data()), memory_rows, width);
        const ConstMatrixView v = view(static_cast<const float*>(cache.memory_value.data()), memory_rows, width);
        multihead_attn_.attend(readOnly(q), k, v, queries, Sequences::uniform(1, memory_rows), options.memory, y, weights.memory, arena);
      },
      output, arena);
}

void DecoderLayer::collect(const std::string& prefix, std::vector<Parameter>& out) {
  self_attn_.collect(prefix + "self_attn.", out);
  multihead_attn_.collect(prefix + "multihead_attn.", out);
  feed_forward_.collect(prefix, out);
  norm1_.collect(prefix + "norm1.", out);
  norm2_.collect(prefix + "norm2.", out);
  norm3_.collect(prefix + "norm3.", out);
}

void DecoderLayer::setTraining(bool training) {
  Module::setTraining(training);
  self_attn_.setTraining(training);
  multihead_attn_.setTraining(training);
  feed_forward_.setTraining(training);
}

void DecoderLayer::seed(uint64_t seed) {
  Generator streams(seed);
  const auto next = [&] { return (static_cast<uint64_t>(streams.next()) << 32) | streams.next(); };
  self_attn_.seed(next());
  multihead_attn_.seed(next());
  feed_forward_.seed(next());
  generator_ = Generator(next());
}

Decoder::Decoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm) {
  for (Index i = 0; i < num_layers; ++i) layers_.push_back(std::make_unique<DecoderLayer>(options));
  if (final_norm) norm_.emplace(LayerNormOptions{.normalized_shape = options.embed_dim, .eps = options.eps, .bias = options.norm_bias});
}

void Decoder::forward(ConstMatrixView target, ConstMatrixView memory, const Sequences& targets, const Sequences& memories,
                      const DecoderCallOptions& options, MatrixView output, std::span<const DecoderWeights> weights, Arena& arena) {
  if (output.data() != target.data()) output = target;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->forward(readOnly(output), memory, targets, memories, options, output, weights.empty() ? DecoderWeights{} : weights[i], arena);
  }
  if (norm_) norm_->forward(readOnly(output), output);
}

Decoder::Cache Decoder::makeCache(ConstMatrixView memory, Arena& arena) {
  Cache cache;
  for (auto& layer : layers_) cache.push_back(layer->makeCache(memory, arena));
  return cache;
}

void Decoder::step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output, Arena& arena) {
  if (output.data() != target.data()) output = target;
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i]->step(readOnly(output), cache[i], options, output, {}, arena);
  if (norm_) norm_->forward(readOnly(output), output);
}

void Decoder::collect(const std::string& prefix, std::vector<Parameter>& out) {
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i]->collect(prefix + "layers." + std::to_string(i) + ".", out);
  if (norm_) norm_->collect(prefix + "norm.", out);
}

void Decoder::setTraining(bool training) {
  Module::setTraining(training);
  for (auto& layer : layers_) layer->setTraining(training);
}

void Decoder::seed(uint64_t seed) {
  Generator streams(seed);
  for (auto& layer : layers_) layer->seed((static_cast<uint64_t>(streams.next()) << 32) | streams.next());
}

}  // namespace heed
