#include "heed/decoder.h"

#include <algorithm>

#include "core/check.h"
#include "layers/residual_block.h"

namespace heed {
namespace {

using GrowingRows = DecoderLayerCache::GrowingRows;

/// Appends rows to each of `count` sequences that have `before` rows so far. `fresh` (count L_new, width) has
/// contiguous rows.
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

/// The first `length` rows of each of `count` sequences, concatenated.
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
      dropout1_({.p = options.dropout}),
      dropout2_({.p = options.dropout}),
      dropout3_({.p = options.dropout}) {
  seed(0);
}

template <class SelfAttention, class CrossAttention>
void DecoderLayer::blocks(ConstMatrixView target, const SelfAttention& self_attention,
                          const CrossAttention& cross_attention, MatrixView output, Context& context) {
  requireShape("output", readOnly(output), target.rows(), options_.embed_dim);
  const auto feed_forward = [&](auto in, auto out, auto residual) {
    feed_forward_.forward(in, out, context, residual);
  };
  const bool pre = options_.norm_first;
  residualBlock(&norm1_, nullptr, pre, dropout1_, target, output, context, self_attention);
  residualBlock(&norm2_, nullptr, pre, dropout2_, readOnly(output), output, context, cross_attention);
  residualBlock(&norm3_, nullptr, pre, dropout3_, readOnly(output), output, context, feed_forward);
}

void DecoderLayer::forward(const DecoderInput& input, const DecoderCallOptions& options, MatrixView output,
                           DecoderWeights weights, Context& context) {
  const auto& [target, memory, targets, memories] = input;
  requireShape("target", target, targets.totalRows(), options_.embed_dim);
  requireShape("memory", memory, memories.totalRows(), options_.embed_dim);
  blocks(
      target,
      [&](auto in, auto out, auto residual) {
        self_attn_.forward({in, in, in, input.targets, input.targets}, options.self, {out, weights.self, residual},
                           context);
      },
      [&](auto in, auto out, auto residual) {
        multihead_attn_.forward({in, input.memory, input.memory, input.targets, input.memories}, options.memory,
                                {out, weights.memory, residual}, context);
      },
      output, context);
}

DecoderLayer::Cache DecoderLayer::makeCache(ConstMatrixView memory, Context& context, Index count) {
  if (count < 1) refuse(ErrorCode::kInvalidArgument, "memory", "at least 1 sequence", std::to_string(count));
  requireShape("memory", memory, memory.rows() / count * count, options_.embed_dim);
  const MultiHeadAttentionOptions& o = multihead_attn_.options();
  const Shape keys{memory.rows(), o.num_heads * o.key_dim}, values{memory.rows(), o.num_heads * o.value_dim};
  Cache cache;
  cache.count = count;
  allocate("memory", keys, cache.memory_key);
  allocate("memory", values, cache.memory_value);
  multihead_attn_.projectKeyValue(memory, memory, view(cache.memory_key.data(), keys[0], keys[1]),
                                  view(cache.memory_value.data(), values[0], values[1]), context);
  return cache;
}

void DecoderLayer::step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output,
                        DecoderWeights weights, Context& context) {
  requireShape("target", target, target.rows() / cache.count * cache.count, options_.embed_dim);
  if (options.memory.rotary)
    refuse(ErrorCode::kUnsupported, "memory.rotary", "none in a step (the cache holds unrotated keys of the memory)",
           "rotary positions");
  blocks(
      target,
      [&](auto in, auto out, auto residual) {
        cachedSelfAttention(in, cache, options.self, {out, weights.self, residual}, context);
      },
      [&](auto in, auto out, auto residual) {
        cachedCrossAttention(in, cache, options.memory, {out, weights.memory, residual}, context);
      },
      output, context);
  cache.length += target.rows() / cache.count;
}

void DecoderLayer::cachedSelfAttention(ConstMatrixView in, Cache& cache, const MultiHeadCallOptions& options,
                                       const MultiHeadOutput& result, Context& context) {
  const Arena::Scope scope(context.arena);
  const MultiHeadAttentionOptions& o = self_attn_.options();
  const Index key_width = o.num_heads * o.key_dim, value_width = o.num_heads * o.value_dim;
  const Index count = cache.count, added = in.rows() / count, before = cache.length, length = before + added;
  const Sequences queries = Sequences::uniform(count, added), keys = Sequences::uniform(count, length);
  const MatrixView q = context.arena.matrix(in.rows(), key_width), k = context.arena.matrix(in.rows(), key_width),
                   v = context.arena.matrix(in.rows(), value_width);
  self_attn_.project(in, in, in, q, k, v, context);
  if (options.rotary) {
    self_attn_.rotate(*options.rotary, queries, before, q);
    self_attn_.rotate(*options.rotary, queries, before, k);
  }
  append(cache.self_key, readOnly(k), count, before);
  append(cache.self_value, readOnly(v), count, before);
  AttentionOptions call = options;
  call.causal = true;
  call.query_offset = before;
  self_attn_.attend({readOnly(q), joined(cache.self_key, count, length, key_width, context.arena),
                     joined(cache.self_value, count, length, value_width, context.arena), queries, keys},
                    call, result, context);
}

void DecoderLayer::cachedCrossAttention(ConstMatrixView in, const Cache& cache, const MultiHeadCallOptions& options,
                                        const MultiHeadOutput& result, Context& context) {
  const Arena::Scope scope(context.arena);
  const MultiHeadAttentionOptions& o = multihead_attn_.options();
  const Index key_width = o.num_heads * o.key_dim, value_width = o.num_heads * o.value_dim;
  const Index memory_rows = static_cast<Index>(cache.memory_key.size()) / key_width;
  const Sequences queries = Sequences::uniform(cache.count, in.rows() / cache.count),
                  keys = Sequences::uniform(cache.count, memory_rows / cache.count);
  const MatrixView q = context.arena.matrix(in.rows(), key_width);
  multihead_attn_.projectQuery(in, q, context);
  multihead_attn_.attend({readOnly(q), view(cache.memory_key.data(), memory_rows, key_width),
                          view(cache.memory_value.data(), memory_rows, value_width), queries, keys},
                         options, result, context);
}

std::vector<Module::Child> DecoderLayer::children() {
  return {{"self_attn", &self_attn_},
          {"multihead_attn", &multihead_attn_},
          {"", &feed_forward_},
          {"norm1", &norm1_},
          {"norm2", &norm2_},
          {"norm3", &norm3_},
          {"", &dropout1_},
          {"", &dropout2_},
          {"", &dropout3_}};
}

Decoder::Decoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm) {
  requireAtLeast("numLayers", num_layers, 1);
  for (Index i = 0; i < num_layers; ++i) {
    layers_.push_back(std::make_unique<DecoderLayer>(options));
    if (i == 0) requireRoom("numLayers", {num_layers, static_cast<Index>(layers_[0]->parameterCount())});
  }
  if (final_norm) norm_.emplace(normOptions(options));
  seed(0);
}

void Decoder::forward(const DecoderInput& input, const DecoderCallOptions& options, MatrixView output,
                      std::span<const DecoderWeights> weights, Context& context) {
  requireShape("output", readOnly(output), input.target.rows(), input.target.cols());
  if (output.data() != input.target.data()) output = input.target;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->forward({readOnly(output), input.memory, input.targets, input.memories}, options, output,
                        weights.empty() ? DecoderWeights{} : weights[i], context);
  }
  if (norm_) norm_->forward(readOnly(output), output);
}

Decoder::Cache Decoder::makeCache(ConstMatrixView memory, Context& context, Index count) {
  Cache cache;
  for (auto& layer : layers_) cache.push_back(layer->makeCache(memory, context, count));
  return cache;
}

void Decoder::step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output,
                   Context& context) {
  requireShape("output", readOnly(output), target.rows(), target.cols());
  if (cache.size() != layers_.size()) {
    refuse(ErrorCode::kInvalidArgument, "cache", "a cache made by this decoder",
           "a cache of " + std::to_string(cache.size()) + " layers");
  }
  const Index before = cache.empty() ? 0 : cache[0].length;
  if (output.data() != target.data()) output = target;
  try {
    for (size_t i = 0; i < layers_.size(); ++i)
      layers_[i]->step(readOnly(output), cache[i], options, output, {}, context);
  } catch (...) {
    for (DecoderLayerCache& layer : cache) layer.length = before;
    throw;
  }
  if (norm_) norm_->forward(readOnly(output), output);
}

}  // namespace heed
