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

void EncoderLayer::forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options,
                           MatrixView output, float* weights, Context& context) {
  requireShape("x", x, sequences.totalRows(), options_.embed_dim);
  requireShape("output", readOnly(output), x.rows(), x.cols());
  selfAttentionBlock(x, sequences, options, output, weights, context);
  feedForwardBlock(output, context);
}

void EncoderLayer::selfAttentionBlock(ConstMatrixView x, const Sequences& sequences,
                                      const MultiHeadCallOptions& options, MatrixView output, float* weights,
                                      Context& context) {
  const auto attend = [&](auto in, auto out, auto residual) {
    self_attn_.forward({in, in, in, sequences, sequences}, options, {out, weights, residual}, context);
  };
  if (!nested_norm_) {
    return residualBlock(options_.attention_norm ? &norm1_ : nullptr, output_norm1_ ? &*output_norm1_ : nullptr,
                         options_.norm_first, dropout1_, x, output, context, attend);
  }
  const Arena::Scope scope(context.arena);
  const MatrixView inner = context.arena.matrix(x.rows(), x.cols());
  residualBlock(&*nested_norm_, nullptr, false, dropout1_, x, inner, context, attend);
  output = x + inner;
  forRowParts(x.rows(), x.cols(), context, [&](Index begin, Index end) {
    norm1_.forward(rowsOf(readOnly(output), begin, end), rowsOf(output, begin, end));
  });
}

void EncoderLayer::feedForwardBlock(MatrixView x, Context& context) {
  residualBlock(&norm2_, output_norm2_ ? &*output_norm2_ : nullptr, options_.norm_first, dropout2_, readOnly(x), x,
                context, [&](auto in, auto out, auto residual) { feed_forward_.forward(in, out, context, residual); });
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

void Encoder::forward(ConstMatrixView x, const Sequences& sequences, const EncoderCallOptions& options,
                      MatrixView output, std::span<float* const> weights, Context& context) {
  requireShape("output", readOnly(output), x.rows(), x.cols());
  if (!options.layer_head_masks.empty())
    requireShape("headMask", {static_cast<Index>(options.layer_head_masks.size())}, {numLayers() * maxHeads()});
  if (output.data() != x.data()) output = x;
  MultiHeadCallOptions call = options;
  std::vector<Mask> masks;
  for (Index i = 0, last_heads = 0; i < numLayers(); ++i) {
    EncoderLayer& layer = *layers_[static_cast<size_t>(i)];
    const Index heads = layer.options().num_heads, length = sequences.maxLength();
    if (heads != last_heads && !options.mask_tensors.empty()) {
      masks = broadcastMasks(options.mask_tensors, {sequences.count(), heads, length, length});
      call.masks = masks;
    }
    last_heads = heads;
    if (!options.layer_head_masks.empty())
      call.head_mask =
          options.layer_head_masks.subspan(static_cast<size_t>(i * maxHeads()), static_cast<size_t>(heads));
    layer.forward(readOnly(output), sequences, call, output,
                  weights.empty() ? nullptr : weights[static_cast<size_t>(i)], context);
  }
  if (norm_) norm_->forward(readOnly(output), output);
}

}  // namespace heed
