#include "heed/transformer.h"

namespace heed {

Transformer::Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers)
    : encoder_(options, num_encoder_layers, true), decoder_(options, num_decoder_layers, true) {
  seed(0);
}

void Transformer::forward(ConstMatrixView source, ConstMatrixView target, const Sequences& sources,
                          const Sequences& targets, const EncoderCallOptions& encoder_options,
                          const DecoderCallOptions& decoder_options, MatrixView output, Context& context) {
  const Arena::Scope scope(context.arena);
  const MatrixView memory = context.arena.matrix(source.rows(), source.cols());
  encoder_.forward(source, sources, encoder_options, memory, {}, context);
  decoder_.forward({target, readOnly(memory), targets, sources}, decoder_options, output, {}, context);
}

}  // namespace heed
