#include "models/convolution_layer.h"

namespace heed {

EncoderModel::Convolution::Convolution(const EncoderModelConfig& config)
    : windows_(
          {.width = config.convolution, .before = (config.convolution - 1) / 2, .after = (config.convolution - 1) / 2}),
      activation_(config.convolution_activation),
      linear_({.in_features = config.layer.embed_dim * config.convolution,
               .out_features = config.layer.embed_dim,
               .precision = config.layer.precision}),
      norm_(config.layer.norm),
      dropout_({.p = 0}) {}

Value EncoderModel::Convolution::forward(Evaluator& e, const Value& x, const Value& h, const Sequences& sequences) {
  Evaluator::Scope scope(e);
  const Value product = linear_.forward(e, e.gatherWindows(x, sequences, windows_), nullptr, true);
  const Value local = e.activate(dropout_.forward(e, product), activation_);
  return scope.leave(e.normalize(norm_, e.add(h, local), true));
}

std::vector<Parameter> EncoderModel::Convolution::ownParameters() {
  std::vector<Parameter> own = linear_.ownParameters();
  const Index rows = own[0].shape[0];
  own[0].shape = {rows, rows, windows_.width};
  return own;
}

}  // namespace heed
