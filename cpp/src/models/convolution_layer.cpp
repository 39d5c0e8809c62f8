#include "models/convolution_layer.h"

#include "layers/residual_block.h"
#include "ops/windows.h"

namespace heed {

EncoderModel::Convolution::Convolution(const EncoderModelConfig& config)
    : width_(config.convolution),
      activation_(config.convolution_activation),
      linear_({.in_features = config.embed_dim * config.convolution,
               .out_features = config.embed_dim,
               .precision = config.precision}),
      norm_(normOptions(config, config.embed_dim)) {}

void EncoderModel::Convolution::forward(ConstMatrixView x, const Sequences& sequences, MatrixView hidden,
                                        Context& context) const {
  const Arena::Scope scope(context.arena);
  const MatrixView windows = context.arena.matrix(x.rows(), x.cols() * width_);
  MatrixView y = context.arena.matrix(x.rows(), x.cols());
  gatherWindows(x, sequences, width_, windows);
  linear_.forward(readOnly(windows), y, context);
  activate(y, activation_);
  hidden += y;
  norm_.forward(readOnly(hidden), hidden);
}

std::vector<Parameter> EncoderModel::Convolution::ownParameters() {
  std::vector<Parameter> own = linear_.ownParameters();
  const Index rows = own[0].shape[0];
  own[0].shape = {rows, rows, width_};
  return own;
}

}  // namespace heed
