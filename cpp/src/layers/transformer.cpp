#include "heed/transformer.h"

namespace heed {

Transformer::Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers)
    : encoder_(options, num_encoder_layers, true), decoder_(options, num_decoder_layers, true) {}

void Transformer::forward(ConstMatrixView source, ConstMatrixView target, const Sequences& sources,
                          const Sequences& targets, const MultiHeadCallOptions& encoder_options,
                          const DecoderCallOptions& decoder_options, MatrixView output, Arena& arena) {
  const Arena::Scope scope(arena);
  const MatrixView memory = arena.matrix(source.rows(), source.cols());
  encoder_.forward(source, sources, encoder_options, memory, {}, arena);
  decoder_.forward(target, readOnly(memory), targets, sources, decoder_options, output, {}, arena);
}

void Transformer::collect(const std::string& prefix, std::vector<Parameter>& out) {
  encoder_.collect(prefix + "encoder.", out);
  decoder_.collect(prefix + "decoder.", out);
}

void Transformer::setTraining(bool training) {
  Module::setTraining(training);
  encoder_.setTraining(training);
  decoder_.setTraining(training);
}

void Transformer::seed(uint64_t seed) {
  Generator streams(seed);
  encoder_.seed(streams.fork());
  decoder_.seed(streams.fork());
}

}  // namespace heed
