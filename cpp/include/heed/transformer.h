#pragma once

#include "heed/decoder.h"

namespace heed {

/// The complete encoder-decoder (Vaswani et al. 2017, arXiv:1706.03762, figure 1), both stacks with their final norms:
/// torch.nn.Transformer, batch_first. Parameters encoder.*, decoder.*.
class Transformer final : public Module {
 public:
  Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers);

  /// source (sum S_n, E), target and output (sum L_n, E): the encoder's output is the decoder's memory. Callers that
  /// want the weights or the memory run the two stacks themselves.
  void forward(ConstMatrixView source, ConstMatrixView target, const Sequences& sources, const Sequences& targets,
               const EncoderCallOptions& encoder_options, const DecoderCallOptions& decoder_options, MatrixView output,
               Context& context);

  Encoder& encoder() { return encoder_; }
  Decoder& decoder() { return decoder_; }

 private:
  std::vector<Child> children() override { return {{"encoder", &encoder_}, {"decoder", &decoder_}}; }

  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace heed
