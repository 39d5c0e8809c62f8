#pragma once

#include "heed/decoder.h"

namespace heed {

/// The complete encoder-decoder of Vaswani et al. 2017, both stacks with their final norms (torch.nn.Transformer,
/// batch_first). Parameters encoder.*, decoder.*.
class Transformer : public Module {
 public:
  Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers)
      : encoder_(options, num_encoder_layers, true), decoder_(options, num_decoder_layers, true) {}

  Encoder& encoder() { return encoder_; }
  Decoder& decoder() { return decoder_; }

  void collect(const std::string& prefix, std::vector<Parameter>& out) override {
    encoder_.collect(prefix + "encoder.", out);
    decoder_.collect(prefix + "decoder.", out);
  }
  void setTraining(bool training) override {
    Module::setTraining(training);
    encoder_.setTraining(training);
    decoder_.setTraining(training);
  }
  void seed(uint64_t seed) override {
    encoder_.seed(seed);
    decoder_.seed(~seed);
  }

 private:
  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace heed
