#pragma once

#include "heed/decoder.h"

namespace heed {

/// The complete encoder-decoder (Vaswani et al. 2017, arXiv:1706.03762, figure 1), both stacks with their final norms:
/// torch.nn.Transformer, batch_first. Parameters encoder.*, decoder.*.
class Transformer : public Module {
 public:
  Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers);

  /// source (sum S_n, E), target and output (sum L_n, E): what the encoder makes of the source is the decoder's memory.
  /// Callers that want the weights or the memory run the two stacks themselves.
  void forward(ConstMatrixView source, ConstMatrixView target, const Sequences& sources, const Sequences& targets,
               const MultiHeadCallOptions& encoder_options, const DecoderCallOptions& decoder_options,
               MatrixView output, Arena& arena);

  Encoder& encoder() { return encoder_; }
  Decoder& decoder() { return decoder_; }

  void collect(const std::string& prefix, std::vector<Parameter>& out) override;
  void setTraining(bool training) override;
  void seed(uint64_t seed) override;

 private:
  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace heed
