#include "heed/encoder.h"

#include <algorithm>

#include "core/check.h"
#include "layers/residual_block.h"

namespace heed {

EncoderLayer::EncoderLayer(const EncoderLayerOptions& options)
    : options_(options),
      self_attn_(attentionOptions(options)),
      feed_forward_(feedForwardOptions(options)),
      norm1_(normOptions(options)),
      norm2_(normOptions(options)),
      dropout1_({.p = options.dropout}),
      dropout2_({.p = options.dropout}) {
  if (options.output_norms) {
    output_norm1_.emplace(normOptions(options));
    output_norm2_.emplace(normOptions(options));
  }
  if (options.nested_norm) nested_norm_.emplace(normOptions(options));
  seed(0);
}

Value EncoderLayer::forward(Evaluator& e, const Value& x, const Sequences& sequences, const AttentionOptions& options,
                            float* weights) {
  requireShape("x", x.values(), sequences.totalRows(), options_.embed_dim);
  const Value a = selfAttentionBlock(e, x, sequences, options, weights);
  return residualBlock(e, &norm2_, output_norm2_ ? &*output_norm2_ : nullptr, options_.norm_first, dropout2_, a,
                       [&](const Value& in, const Value* residual) { return feed_forward_.forward(e, in, residual); });
}

Value EncoderLayer::selfAttentionBlock(Evaluator& e, const Value& x, const Sequences& sequences,
                                       const AttentionOptions& options, float* weights) {
  const auto attend = [&](const Value& in, const Value* residual) {
    return self_attn_.forward(e, {in, in, in, sequences, sequences}, options, weights, residual);
  };
  if (!nested_norm_) {
    return residualBlock(e, options_.attention_norm ? &norm1_ : nullptr, output_norm1_ ? &*output_norm1_ : nullptr,
                         options_.norm_first, dropout1_, x, attend);
  }
  Evaluator::Scope scope(e);
  const Value inner = residualBlock(e, &*nested_norm_, nullptr, false, dropout1_, e.copy(x), attend);
  return scope.leave(e.normalize(norm1_, e.add(x, inner), true));
}

std::vector<Module::Child> EncoderLayer::children() {
  std::vector<Child> all = {{"self_attn", &self_attn_}, {"", &feed_forward_}};
  if (options_.attention_norm) all.push_back({"norm1", &norm1_});
  all.insert(all.end(), {{"norm2", &norm2_}, {"", &dropout1_}, {"", &dropout2_}});
  if (nested_norm_) all.push_back({"nested_norm", &*nested_norm_});
  if (output_norm1_ && output_norm2_)
    all.insert(all.end(), {{"output_norm1", &*output_norm1_}, {"output_norm2", &*output_norm2_}});
  return all;
}

Encoder::Encoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm, std::span<const Index> heads) {
  requireAtLeast("numLayers", num_layers, 1);
  if (!heads.empty()) requireShape("heads", {static_cast<Index>(heads.size())}, {num_layers});
  EncoderLayerOptions layer = options;
  for (Index i = 0; i < num_layers; ++i) {
    if (!heads.empty()) layer.num_heads = heads[static_cast<size_t>(i)];
    layers_.push_back(std::make_unique<EncoderLayer>(layer));
    if (i == 0) requireRoom("numLayers", {num_layers, static_cast<Index>(layers_[0]->parameterCount())});
  }
  if (final_norm) norm_.emplace(normOptions(options));
  seed(0);
}

Index Encoder::maxHeads() const {
  Index heads = 0;
  for (const auto& layer : layers_) heads = std::max(heads, layer->options().num_heads);
  return heads;
}

Value Encoder::forward(Evaluator& e, const Value& x, const Sequences& sequences, const AttentionOptions& options,
                       std::span<float* const> weights) {
  if (options.head_mask) requireShape("headMask", options.head_mask.values(), numLayers(), maxHeads());
  Value output = x;
  for (Index i = 0; i < numLayers(); ++i) {
    AttentionOptions call = options;
    // Pruned layers have fewer heads and ignore the rest of their row.
    if (options.head_mask) call.head_mask = e.row(options.head_mask, i, layer(i).options().num_heads);
    output = layer(i).forward(e, output, sequences, call, weights.empty() ? nullptr : weights[static_cast<size_t>(i)]);
  }
  return norm_ ? e.normalize(*norm_, output, true) : output;
}

}  // namespace heed
