#include "heed/decoder.h"

#include <algorithm>

#include "core/check.h"
#include "heed/inference_evaluator.h"
#include "layers/residual_block.h"

namespace heed {
namespace {

/// Rejects options that only encoder layers support.
EncoderLayerOptions supported(const EncoderLayerOptions& options) {
  const char* unknown = options.output_norms                     ? "outputNorms"
                        : options.layer_scale                    ? "layerScale"
                        : options.nested_norm                    ? "nestedNorm"
                        : !options.attention_norm                ? "attentionNorm"
                        : options.attention.position_projections ? "positionProjections"
                                                                 : nullptr;
  if (unknown)
    throw Error(ErrorCode::kUnsupported, std::string(unknown) + ": decoder layers do not support this option");
  return options.completed();
}

using GrowingRows = DecoderLayerCache::GrowingRows;

/// Appends rows to each of `count` sequences that have `before` rows so far. `fresh` (count L_new, width) has
/// contiguous rows.
void append(GrowingRows& cached, ConstMatrixView fresh, Index count, Index before) {
  const Index width = fresh.cols(), added = fresh.rows() / count;
  if (before + added > cached.capacity) {
    const Index capacity = std::max(before + added, 2 * cached.capacity);
    std::vector<float> larger(static_cast<size_t>(Shape{count, capacity, width}.size()));
    for (Index n = 0; n < count; ++n)
      std::copy_n(cached.values.data() + n * cached.capacity * width, before * width,
                  larger.data() + n * capacity * width);
    cached.values.swap(larger);
    cached.capacity = capacity;
  }
  for (Index n = 0; n < count; ++n) {
    std::copy_n(fresh.data() + n * added * width, added * width,
                cached.values.data() + (n * cached.capacity + before) * width);
  }
}

/// The first `length` rows of each of `count` sequences, concatenated.
Value joined(const GrowingRows& cached, Index count, Index length, Index width, Arena& arena) {
  if (count == 1) return Value::constant(view(cached.values.data(), length, width));
  MatrixView all = arena.matrix(count * length, width);
  for (Index n = 0; n < count; ++n) {
    std::copy_n(cached.values.data() + n * cached.capacity * width, length * width, all.data() + n * length * width);
  }
  return all;
}

}  // namespace

DecoderLayer::DecoderLayer(const EncoderLayerOptions& options)
    : options_(supported(options)),
      self_attn_(options_.attention),
      multihead_attn_(options_.attention),
      feed_forward_(options_.feed_forward),
      norm1_(options_.norm),
      norm2_(options_.norm),
      norm3_(options_.norm),
      dropout1_({.p = options.dropout}),
      dropout2_({.p = options.dropout}),
      dropout3_({.p = options.dropout}) {
  seed(0);
}

template <class SelfAttention, class CrossAttention>
Value DecoderLayer::blocks(Evaluator& e, const Value& target, const Sequences& memories,
                           const SelfAttention& self_attention, const CrossAttention& cross_attention) {
  const bool pre = options_.norm_first;
  const Value a = residualBlock(e, &norm1_, pre, {dropout1_, Site::kAttention}, target, self_attention);
  e.enterCrossAttention(memories);
  const Value b = residualBlock(e, &norm2_, pre, {dropout2_, Site::kAttention}, a, cross_attention);
  e.leaveCrossAttention();
  return residualBlock(e, &norm3_, pre, {dropout3_, Site::kFeedForward}, b,
                       [&](const Value& in, const Value* residual) { return feed_forward_.forward(e, in, residual); });
}

Value DecoderLayer::forward(Evaluator& e, const DecoderInput& input, const DecoderCallOptions& options,
                            const DecoderWeights& weights) {
  const auto& [target, memory, targets, memories] = input;
  requireShape("target", target.values(), targets.totalRows(), options_.embed_dim);
  requireShape("memory", memory.values(), memories.totalRows(), options_.embed_dim);
  return blocks(
      e, target, memories,
      [&](const Value& in, const Value* residual) {
        return self_attn_.forward(e, {in, in, in, input.targets, input.targets}, options.self, weights.self, residual);
      },
      [&](const Value& in, const Value* residual) {
        return multihead_attn_.forward(e, {in, input.memory, input.memory, input.targets, input.memories},
                                       options.memory, weights.memory, residual);
      });
}

DecoderLayer::Cache DecoderLayer::makeCache(const Value& memory, Context& context, Index count) {
  if (count < 1) throwInvalid(ErrorCode::kInvalidArgument, "memory", "at least 1 sequence", std::to_string(count));
  requireShape("memory", memory.values(), memory.rows() / count * count, options_.embed_dim);
  const Arena::Scope scope(context.arena);
  InferenceEvaluator e(context);
  const auto [query, key, value] = multihead_attn_.projectKeyValue(e, memory, memory);
  Cache cache;
  cache.count = count;
  cache.key_width = key.cols();
  cache.value_width = value.cols();
  const auto copy = [](const Value& from, std::vector<float>& to) {
    allocate("memory", {from.rows(), from.cols()}, to);
    std::copy_n(from.data(), to.size(), to.data());
  };
  copy(key, cache.memory_key);
  copy(value, cache.memory_value);
  return cache;
}

Value DecoderLayer::step(Evaluator& e, const Value& target, Cache& cache, const DecoderCallOptions& options) {
  const MultiHeadAttentionOptions& o = multihead_attn_.options();
  const Index key_width = o.key_value_heads * o.key_dim, value_width = o.key_value_heads * o.value_dim;
  if (cache.key_width != key_width || cache.value_width != value_width) {
    throwInvalid(
        ErrorCode::kInvalidArgument, "cache",
        "a cache made by this decoder, with keys and values of width " + Shape{key_width, value_width}.toString(),
        "width " + Shape{cache.key_width, cache.value_width}.toString());
  }
  requireShape("target", target.values(), target.rows() / cache.count * cache.count, options_.embed_dim);
  if (options.memory.rotary)
    throw Error(ErrorCode::kUnsupported,
                "memory.rotary: steps do not support rotary positions of the memory (the cache holds unrotated keys)");
  const Sequences memories = Sequences::uniform(cache.count, 0);  // only sites read it, which steps do not have
  const Value output = blocks(
      e, target, memories,
      [&](const Value& in, const Value* residual) { return cachedSelfAttention(e, in, cache, options.self, residual); },
      [&](const Value& in, const Value* residual) {
        return cachedCrossAttention(e, in, cache, options.memory, residual);
      });
  cache.length += target.rows() / cache.count;
  return output;
}

Value DecoderLayer::cachedSelfAttention(Evaluator& e, const Value& in, Cache& cache, const AttentionOptions& options,
                                        const Value* residual) {
  const Index count = cache.count, added = in.rows() / count, before = cache.length, length = before + added;
  const Sequences queries = Sequences::uniform(count, added), keys = Sequences::uniform(count, length);
  auto [q, k, v] = self_attn_.project(e, in, in, in);
  if (options.rotary) {
    const MultiHeadAttentionOptions& o = self_attn_.options();
    q = e.rotate(*options.rotary, q, queries, o.num_heads, before);
    k = e.rotate(*options.rotary, k, queries, o.key_value_heads, before);
  }
  append(cache.self_key, k.values(), count, before);
  append(cache.self_value, v.values(), count, before);
  AttentionOptions call = options;
  call.causal = true;
  call.query_offset = before;
  const auto all = [&](const GrowingRows& cached, const Value& fresh) {
    return joined(cached, count, length, fresh.cols(), e.context().arena);
  };
  return self_attn_.attend(e, {q, all(cache.self_key, k), all(cache.self_value, v), queries, keys}, call, nullptr,
                           residual);
}

Value DecoderLayer::cachedCrossAttention(Evaluator& e, const Value& in, const Cache& cache,
                                         const AttentionOptions& options, const Value* residual) {
  const MultiHeadAttentionOptions& o = multihead_attn_.options();
  const Index key_width = o.key_value_heads * o.key_dim, value_width = o.key_value_heads * o.value_dim;
  const Index memory_rows = static_cast<Index>(cache.memory_key.size()) / key_width;
  const Sequences queries = Sequences::uniform(cache.count, in.rows() / cache.count),
                  keys = Sequences::uniform(cache.count, memory_rows / cache.count);
  const auto cached = [&](const std::vector<float>& values, Index width) {
    return Value::constant(view(values.data(), memory_rows, width));
  };
  const Value q = multihead_attn_.projectQuery(e, in);
  return multihead_attn_.attend(
      e, {q, cached(cache.memory_key, key_width), cached(cache.memory_value, value_width), queries, keys}, options,
      nullptr, residual);
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
  if (final_norm) norm_.emplace(options.completed().norm);
  seed(0);
}

Value Decoder::forward(Evaluator& e, const DecoderInput& input, const DecoderCallOptions& options,
                       std::span<const DecoderWeights> weights) {
  Value output = input.target;
  for (size_t i = 0; i < layers_.size(); ++i) {
    e.enterLayer(2 * static_cast<Index>(i));
    output = e.at(Site::kInput, output);
    output = layers_[i]->forward(e, {output, input.memory, input.targets, input.memories}, options,
                                 weights.empty() ? DecoderWeights{} : weights[i]);
    output = e.at(Site::kOutput, output);
  }
  if (norm_) output = e.normalize(*norm_, output, true);
  e.enterLayer(2 * numLayers());
  return e.at(Site::kOutput, output);
}

Decoder::Cache Decoder::makeCache(const Value& memory, Context& context, Index count) {
  Cache cache;
  for (auto& layer : layers_) cache.push_back(layer->makeCache(memory, context, count));
  return cache;
}

Value Decoder::step(Evaluator& e, const Value& target, Cache& cache, const DecoderCallOptions& options) {
  if (cache.size() != layers_.size()) {
    throwInvalid(ErrorCode::kInvalidArgument, "cache", "a cache made by this decoder",
                 "a cache of " + std::to_string(cache.size()) + " layers");
  }
  const Index before = cache.empty() ? 0 : cache[0].length;
  Value output = target;
  try {
    for (size_t i = 0; i < layers_.size(); ++i) output = layers_[i]->step(e, output, cache[i], options);
  } catch (...) {
    for (DecoderLayerCache& layer : cache) layer.length = before;
    throw;
  }
  return norm_ ? e.normalize(*norm_, output, true) : output;
}

Transformer::Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers)
    : encoder_(options, num_encoder_layers, true), decoder_(options, num_decoder_layers, true) {
  seed(0);
}

Transformer::Output Transformer::forward(Evaluator& e, const Value& source, const Value& target,
                                         const Sequences& sources, const Sequences& targets,
                                         const AttentionOptions& encoder_options,
                                         const DecoderCallOptions& decoder_options,
                                         std::span<float* const> encoder_weights,
                                         std::span<const DecoderWeights> decoder_weights) {
  const Value memory = encoder_.forward(e, source, sources, encoder_options, encoder_weights);
  e.enterStack(encoder_.numLayers() + 1, targets);  // smaller numbers: the encoder's layers and its output
  return {decoder_.forward(e, {target, memory, targets, sources}, decoder_options, decoder_weights), memory};
}

}  // namespace heed
