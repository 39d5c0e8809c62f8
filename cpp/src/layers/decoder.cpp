#include "heed/decoder.h"

#include <algorithm>

#include "check.h"
#include "layers/blocks.h"

namespace heed {
namespace {

using GrowingRows = DecoderLayer::GrowingRows;

/// Puts the next rows of each of `count` sequences, `fresh` (count L_new, width) without gaps, after their first
/// `before`.
void append(GrowingRows& kept, ConstMatrixView fresh, Index count, Index before) {
  const Index width = fresh.cols(), added = fresh.rows() / count;
  if (before + added > kept.capacity) {
    const Index capacity = std::max(before + added, 2 * kept.capacity);
    std::vector<float> larger(static_cast<size_t>(Shape{count, capacity, width}.size()));
    for (Index n = 0; n < count; ++n)
      std::copy_n(kept.values.data() + n * kept.capacity * width, before * width, larger.data() + n * capacity * width);
    kept.values.swap(larger);
    kept.capacity = capacity;
  }
  for (Index n = 0; n < count; ++n) {
    std::copy_n(fresh.data() + n * added * width, added * width,
                kept.values.data() + (n * kept.capacity + before) * width);
  }
}

/// The first `length` rows of each of `count` sequences, one after the other.
ConstMatrixView joined(const GrowingRows& kept, Index count, Index length, Index width, Arena& arena) {
  if (count == 1) return view(kept.values.data(), length, width);
  MatrixView all = arena.matrix(count * length, width);
  for (Index n = 0; n < count; ++n) {
    std::copy_n(kept.values.data() + n * kept.capacity * width, length * width, all.data() + n * length * width);
  }
  return readOnly(all);
}

}  // namespace

DecoderLayer::DecoderLayer(const EncoderLayerOptions& options)
    : options_(options),
      self_attn_(attentionOptions(options)),
      multihead_attn_(attentionOptions(options)),
      feed_forward_(feedForwardOptions(options)),
      norm1_(normOptions(options)),
      norm2_(normOptions(options)),
      norm3_(normOptions(options)),
      dropout_({.p = options.dropout}) {}

template <class SelfAttention, class CrossAttention>
void DecoderLayer::run(ConstMatrixView target, const SelfAttention& self, const CrossAttention& cross,
                       MatrixView output, Arena& arena) {
  const auto feed = [&](ConstMatrixView in, MatrixView out, const ConstMatrixView* plus) {
    feed_forward_.forward(in, out, arena, plus);
  };
  requireShape("output", readOnly(output), target.rows(), options_.embed_dim);
  Residual(&norm1_, options_.norm_first, dropout_)(target, self, output, arena);
  Residual(&norm2_, options_.norm_first, dropout_)(readOnly(output), cross, output, arena);
  Residual(&norm3_, options_.norm_first, dropout_)(readOnly(output), feed, output, arena);
}

void DecoderLayer::forward(ConstMatrixView target, ConstMatrixView memory, const Sequences& targets,
                           const Sequences& memories, const DecoderCallOptions& options, MatrixView output,
                           DecoderWeights weights, Arena& arena) {
  requireShape("target", target, targets.totalRows(), options_.embed_dim);
  requireShape("memory", memory, memories.totalRows(), options_.embed_dim);
  const auto self = [&](ConstMatrixView in, MatrixView out, const ConstMatrixView* plus) {
    self_attn_.forward(in, in, in, targets, targets, options.self, out, weights.self, arena, plus);
  };
  const auto cross = [&](ConstMatrixView in, MatrixView out, const ConstMatrixView* plus) {
    multihead_attn_.forward(in, memory, memory, targets, memories, options.memory, out, weights.memory, arena, plus);
  };
  run(target, self, cross, output, arena);
}

DecoderLayer::Cache DecoderLayer::makeCache(ConstMatrixView memory, Arena& arena, Index count) {
  if (count < 1) refuse(ErrorCode::kInvalidArgument, "memory", std::to_string(count) + " sequences", "at least 1");
  requireShape("memory", memory, memory.rows() / count * count, options_.embed_dim);
  const MultiHeadAttentionOptions& o = multihead_attn_.options();
  const Shape keys{memory.rows(), o.num_heads * o.key_dim}, values{memory.rows(), o.num_heads * o.value_dim};
  Cache cache;
  cache.count = count;
  cache.memory_key.resize(static_cast<size_t>(keys.size()));
  cache.memory_value.resize(static_cast<size_t>(values.size()));
  multihead_attn_.projectKeyValue(memory, memory, view(cache.memory_key.data(), keys[0], keys[1]),
                                  view(cache.memory_value.data(), values[0], values[1]), arena);
  return cache;
}

void DecoderLayer::step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output,
                        DecoderWeights weights, Arena& arena) {
  requireShape("target", target, target.rows() / cache.count * cache.count, options_.embed_dim);
  if (options.memory.rotary)
    refuse(ErrorCode::kUnsupported, "memory.rotary", "one in a step",
           "none: the cache holds the memory's keys as they are");
  const MultiHeadAttentionOptions& o = self_attn_.options();
  const Index key_width = o.num_heads * o.key_dim, value_width = o.num_heads * o.value_dim;
  const Index count = cache.count, added = target.rows() / count, before = cache.length, length = before + added;
  const Index memory_rows = static_cast<Index>(cache.memory_key.size()) / key_width;
  const Sequences queries = Sequences::uniform(count, added);

  const auto self = [&](ConstMatrixView in, MatrixView out, const ConstMatrixView* plus) {
    const Arena::Scope scope(arena);
    const MatrixView q = arena.matrix(in.rows(), key_width), k = arena.matrix(in.rows(), key_width),
                     v = arena.matrix(in.rows(), value_width);
    self_attn_.project(in, in, in, q, k, v, arena);
    AttentionOptions call = options.self;
    call.causal = true;
    call.query_offset = before;
    if (options.self.rotary) {
      self_attn_.rotate(*options.self.rotary, queries, before, q);
      self_attn_.rotate(*options.self.rotary, queries, before, k);
    }
    append(cache.self_key, readOnly(k), count, before);
    append(cache.self_value, readOnly(v), count, before);
    self_attn_.attend(readOnly(q), joined(cache.self_key, count, length, key_width, arena),
                      joined(cache.self_value, count, length, value_width, arena), queries,
                      Sequences::uniform(count, length), call, out, weights.self, arena, plus);
  };
  const auto cross = [&](ConstMatrixView in, MatrixView out, const ConstMatrixView* plus) {
    const Arena::Scope scope(arena);
    const MatrixView q = arena.matrix(in.rows(), key_width);
    multihead_attn_.projectQuery(in, q, arena);
    const auto memory = [&](const std::vector<float>& rows, Index width) {
      return view(rows.data(), memory_rows, width);
    };
    multihead_attn_.attend(readOnly(q), memory(cache.memory_key, key_width), memory(cache.memory_value, value_width),
                           queries, Sequences::uniform(count, memory_rows / count), options.memory, out, weights.memory,
                           arena, plus);
  };
  run(target, self, cross, output, arena);
  cache.length = length;
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
  dropout_.setTraining(training);
}

void DecoderLayer::seed(uint64_t seed) {
  Generator streams(seed);
  self_attn_.seed(streams.fork());
  multihead_attn_.seed(streams.fork());
  feed_forward_.seed(streams.fork());
  dropout_.seed(streams.fork());
}

Decoder::Decoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm) {
  requireAtLeast("numLayers", num_layers, 1);
  for (Index i = 0; i < num_layers; ++i) {
    layers_.push_back(std::make_unique<DecoderLayer>(options));
    if (i == 0) requireRoom("numLayers", {num_layers, layers_[0]->parameterCount()});
  }
  if (final_norm) norm_.emplace(normOptions(options));
}

void Decoder::forward(ConstMatrixView target, ConstMatrixView memory, const Sequences& targets,
                      const Sequences& memories, const DecoderCallOptions& options, MatrixView output,
                      std::span<const DecoderWeights> weights, Arena& arena) {
  requireShape("output", readOnly(output), target.rows(), target.cols());
  if (output.data() != target.data()) output = target;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->forward(readOnly(output), memory, targets, memories, options, output,
                        weights.empty() ? DecoderWeights{} : weights[i], arena);
  }
  if (norm_) norm_->forward(readOnly(output), output);
}

Decoder::Cache Decoder::makeCache(ConstMatrixView memory, Arena& arena, Index count) {
  Cache cache;
  for (auto& layer : layers_) cache.push_back(layer->makeCache(memory, arena, count));
  return cache;
}

void Decoder::step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output,
                   Arena& arena) {
  requireShape("output", readOnly(output), target.rows(), target.cols());
  if (cache.size() != layers_.size()) {
    refuse(ErrorCode::kInvalidArgument, "cache", "one of " + std::to_string(cache.size()) + " layers",
           "one that this decoder made");
  }
  const Index before = cache.empty() ? 0 : cache[0].length;
  if (output.data() != target.data()) output = target;
  try {
    for (size_t i = 0; i < layers_.size(); ++i)
      layers_[i]->step(readOnly(output), cache[i], options, output, {}, arena);
  } catch (...) {
    for (DecoderLayer::Cache& layer : cache) layer.length = before;
    throw;
  }
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
  for (auto& layer : layers_) layer->seed(streams.fork());
}

}  // namespace heed
