#include "heed/encoder.h"

#include <algorithm>

#include "core/check.h"
#include "layers/residual_block.h"

namespace heed {

EncoderLayerOptions EncoderLayerOptions::completed() const {
  EncoderLayerOptions o = *this;
  o.attention.embed_dim = o.feed_forward.embed_dim = o.norm.normalized_shape = embed_dim;
  o.attention.bias = bias && attention_bias;
  o.feed_forward.bias = bias && feed_forward_bias;
  o.attention.dropout = o.feed_forward.dropout = dropout;
  o.attention.precision = o.feed_forward.precision = precision;
  o.attention.norm = o.norm;
  return o;
}

EncoderLayer::EncoderLayer(const EncoderLayerOptions& options)
    : options_(options.completed()),
      self_attn_(options_.attention),
      feed_forward_(options_.feed_forward),
      norm1_(options_.norm),
      norm2_(options_.norm),
      dropout1_({.p = options.dropout}),
      dropout2_({.p = options.dropout}) {
  if (options.output_norms) {
    output_norm1_.emplace(options_.norm);
    output_norm2_.emplace(options_.norm);
  }
  if (options.layer_scale) {
    layer_scale1_.emplace(options.embed_dim);
    layer_scale2_.emplace(options.embed_dim);
  }
  if (options.nested_norm) nested_norm_.emplace(options_.norm);
  seed(0);
}

Value EncoderLayer::forward(Evaluator& e, const Value& x, const Sequences& sequences, const AttentionOptions& options,
                            float* weights) {
  requireShape("x", x.values(), sequences.totalRows(), options_.embed_dim);
  const Value a = selfAttentionBlock(e, x, sequences, options, weights);
  const BlockOutput output{dropout2_, Site::kFeedForward, addressOf(output_norm2_), addressOf(layer_scale2_)};
  return residualBlock(e, &norm2_, options_.norm_first, output, a,
                       [&](const Value& in, const Value* residual) { return feed_forward_.forward(e, in, residual); });
}

Value EncoderLayer::selfAttentionBlock(Evaluator& e, const Value& x, const Sequences& sequences,
                                       const AttentionOptions& options, float* weights) {
  const auto attend = [&](const Value& in, const Value* residual) {
    return self_attn_.forward(e, {in, in, in, sequences, sequences}, options, weights, residual);
  };
  if (!nested_norm_) {
    const BlockOutput output{dropout1_, Site::kAttention, addressOf(output_norm1_), addressOf(layer_scale1_)};
    return residualBlock(e, norm1(), options_.norm_first, output, x, attend);
  }
  Evaluator::Scope scope(e);
  const Value inner = residualBlock(e, &*nested_norm_, false, {dropout1_, Site::kAttention}, e.copy(x), attend);
  return scope.leave(e.normalize(norm1_, e.add(x, inner), true));
}

std::vector<Module::Child> EncoderLayer::children() {
  std::vector<Child> all = {{"self_attn", &self_attn_}, {"", &feed_forward_}};
  if (options_.attention_norm) all.push_back({"norm1", &norm1_});
  all.insert(all.end(), {{"norm2", &norm2_}, {"", &dropout1_}, {"", &dropout2_}});
  if (nested_norm_) all.push_back({"nested_norm", &*nested_norm_});
  if (output_norm1_ && output_norm2_)
    all.insert(all.end(), {{"output_norm1", &*output_norm1_}, {"output_norm2", &*output_norm2_}});
  if (layer_scale1_ && layer_scale2_)
    all.insert(all.end(), {{"layer_scale1", &*layer_scale1_}, {"layer_scale2", &*layer_scale2_}});
  return all;
}

Encoder::Encoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm, std::span<const Index> heads) {
  requireAtLeast("numLayers", num_layers, 1);
  if (!heads.empty()) requireShape("heads", {static_cast<Index>(heads.size())}, {num_layers});
  EncoderLayerOptions layer = options;
  for (Index i = 0; i < num_layers; ++i) {
    if (!heads.empty()) layer.attention.num_heads = heads[static_cast<size_t>(i)];
    layers_.push_back(std::make_unique<EncoderLayer>(layer));
    if (i == 0) requireRoom("numLayers", {num_layers, static_cast<Index>(layers_[0]->parameterCount())});
  }
  if (final_norm) norm_.emplace(options.completed().norm);
  seed(0);
}

Index Encoder::maxHeads() const {
  Index heads = 0;
  for (const auto& layer : layers_) heads = std::max(heads, layer->options().attention.num_heads);
  return heads;
}

Value Encoder::forward(Evaluator& e, const Value& x, const Sequences& sequences, const AttentionOptions& options,
                       std::span<float* const> weights) {
  if (options.head_mask) requireShape("headMask", options.head_mask.values(), numLayers(), maxHeads());
  Value output = x;
  for (Index i = 0; i < numLayers(); ++i) {
    AttentionOptions call = options;
    // Pruned layers have fewer heads and ignore the rest of their row of the mask.
    if (options.head_mask) call.head_mask = e.row(options.head_mask, i, layer(i).options().attention.num_heads);
    e.enterLayer(i);
    output = e.at(Site::kInput, output);
    output = layer(i).forward(e, output, sequences, call, weights.empty() ? nullptr : weights[static_cast<size_t>(i)]);
    output = e.at(Site::kOutput, output);
  }
  if (norm_) output = e.normalize(*norm_, output, true);
  e.enterLayer(numLayers());
  return e.at(Site::kOutput, output);
}

}  // namespace heed
