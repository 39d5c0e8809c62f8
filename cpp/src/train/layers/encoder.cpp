#include "heed/encoder.h"

#include "core/check.h"
#include "train/layers/residual_block.h"

namespace heed::train {

Variable encoderLayer(Graph& graph, EncoderLayer& layer, const Variable& x, const Sequences& sequences,
                      const LayerSettings& settings, float* weights) {
  requireShape("x", x.value(), sequences.totalRows(), layer.options().embed_dim);
  const auto self_attention = [&](const Variable& in) {
    return multiHeadAttention(graph, layer.selfAttention(), in, in, in, sequences, sequences, settings, weights);
  };
  const auto feed_forward = [&](const Variable& in) { return feedForward(graph, layer.feedForward(), in); };
  const bool pre = layer.options().norm_first;
  const auto attend = [&] {
    if (!layer.nestedNorm())
      return residualBlock(graph, layer.norm1(), layer.outputNorm1(), pre, layer.dropout1(), x, self_attention);
    const Variable inner =
        residualBlock(graph, layer.nestedNorm(), nullptr, false, layer.dropout1(), x, self_attention);
    return layerNorm(graph, *layer.norm1(), add(graph, x, inner));
  };
  const Variable attended = attend();
  return residualBlock(graph, layer.norm2(), layer.outputNorm2(), pre, layer.dropout2(), attended, feed_forward);
}

Variable encoder(Graph& graph, Encoder& layers, const Variable& x, const Sequences& sequences,
                 const LayerSettings& settings, std::span<float* const> weights) {
  if (settings.head_mask) requireShape("headMask", settings.head_mask.value(), layers.numLayers(), layers.maxHeads());
  Variable output = x;
  for (Index i = 0; i < layers.numLayers(); ++i) {
    EncoderLayer& layer = layers.layer(i);
    LayerSettings call = settings;
    // Pruned layers have fewer heads and ignore the rest of their row.
    if (settings.head_mask) {
      call.head_mask = sliceColumns(graph, gatherRows(graph, settings.head_mask, {i}), 0, layer.options().num_heads);
    }
    output = encoderLayer(graph, layer, output, sequences, call,
                          weights.empty() ? nullptr : weights[static_cast<size_t>(i)]);
  }
  return layers.finalNorm() ? layerNorm(graph, *layers.finalNorm(), output) : output;
}

}  // namespace heed::train
