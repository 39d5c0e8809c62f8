#include "heed/decoder.h"

#include "core/check.h"
#include "heed/transformer.h"
#include "train/layers/residual_block.h"

namespace heed::train {

Variable decoderLayer(Graph& graph, DecoderLayer& layer, const Variable& target, const Variable& memory,
                      const Sequences& targets, const Sequences& memories, const DecoderSettings& settings,
                      DecoderWeights weights) {
  requireShape("target", target.value(), targets.totalRows(), layer.options().embed_dim);
  requireShape("memory", memory.value(), memories.totalRows(), layer.options().embed_dim);
  const auto self_attention = [&](const Variable& in) {
    return multiHeadAttention(graph, layer.selfAttention(), in, in, in, targets, targets, settings.self, weights.self);
  };
  const auto cross_attention = [&](const Variable& in) {
    return multiHeadAttention(graph, layer.crossAttention(), in, memory, memory, targets, memories, settings.memory,
                              weights.memory);
  };
  const auto feed_forward = [&](const Variable& in) { return feedForward(graph, layer.feedForward(), in); };
  const bool pre = layer.options().norm_first;
  const Variable attended = residualBlock(graph, layer.norm1(), nullptr, pre, layer.dropout1(), target, self_attention);
  const Variable crossed =
      residualBlock(graph, layer.norm2(), nullptr, pre, layer.dropout2(), attended, cross_attention);
  return residualBlock(graph, layer.norm3(), nullptr, pre, layer.dropout3(), crossed, feed_forward);
}

Variable decoder(Graph& graph, Decoder& layers, const Variable& target, const Variable& memory,
                 const Sequences& targets, const Sequences& memories, const DecoderSettings& settings,
                 std::span<const DecoderWeights> weights) {
  Variable output = target;
  for (Index i = 0; i < layers.numLayers(); ++i) {
    output = decoderLayer(graph, layers.layer(i), output, memory, targets, memories, settings,
                          weights.empty() ? DecoderWeights{} : weights[static_cast<size_t>(i)]);
  }
  return layers.finalNorm() ? layerNorm(graph, *layers.finalNorm(), output) : output;
}

TransformerOutput transformer(Graph& graph, Transformer& model, const Variable& source, const Variable& target,
                              const Sequences& sources, const Sequences& targets, const LayerSettings& source_settings,
                              const DecoderSettings& target_settings, std::span<float* const> encoder_weights,
                              std::span<const DecoderWeights> decoder_weights) {
  const Variable memory = encoder(graph, model.encoder(), source, sources, source_settings, encoder_weights);
  return {decoder(graph, model.decoder(), target, memory, targets, sources, target_settings, decoder_weights), memory};
}

}  // namespace heed::train
