#pragma once

#include "heed/decoder.h"

/// Notation: S_n source rows and L_n target rows of sequence n, E width of the model.
namespace heed {

/// The complete encoder-decoder model (Vaswani et al. 2017, arXiv:1706.03762, figure 1), with a final norm after each
/// stack, like torch.nn.Transformer with batch_first. Parameters: encoder.*, decoder.*.
class Transformer final : public Module {
 public:
  Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers);

  struct Output {
    Value output;  ///< (sum L_n, E)
    Value memory;  ///< (sum S_n, E), the encoder's output
  };
  /// source (sum S_n, E), target (sum L_n, E); consumes both. The encoder's output is the decoder's memory. The weights
  /// are as in Encoder::forward() and Decoder::forward().
  Output forward(Evaluator& e, const Value& source, const Value& target, const Sequences& sources,
                 const Sequences& targets, const AttentionOptions& encoder_options,
                 const DecoderCallOptions& decoder_options, std::span<float* const> encoder_weights = {},
                 std::span<const DecoderWeights> decoder_weights = {});

  Encoder& encoder() { return encoder_; }
  Decoder& decoder() { return decoder_; }

 private:
  std::vector<Child> children() override { return {{"encoder", &encoder_}, {"decoder", &decoder_}}; }

  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace heed
