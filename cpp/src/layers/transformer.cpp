#include "heed/transformer.h"

namespace heed {

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
