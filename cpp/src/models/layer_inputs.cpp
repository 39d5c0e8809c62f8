#include "models/layer_inputs.h"

namespace heed {
namespace {

LayerNormOptions normOf(const EncoderModelConfig& config, Index width) {
  LayerNormOptions norm = config.layer.norm;
  norm.normalized_shape = width;
  return norm;
}

LayerNormOptions signalNorm(const EncoderModelConfig& config) {
  LayerNormOptions norm = normOf(config, config.layer_input_dim);
  // Published models divide the signal by sqrt(E) before the norm. Multiplying eps by E has the same effect.
  norm.eps *= static_cast<float>(config.layer.embed_dim);
  return norm;
}

LinearOptions linear(const EncoderModelConfig& config, Index in, Index out,
                     Activation activation = Activation::kIdentity) {
  return {.in_features = in,
          .out_features = out,
          .bias = false,
          .activation = activation,
          .precision = config.layer.precision};
}

}  // namespace

EncoderModel::LayerInputs::Block::Block(const EncoderModelConfig& config)
    : gate_(linear(config, config.layer.embed_dim, config.layer_input_dim, config.layer.feed_forward.activation)),
      out_(linear(config, config.layer_input_dim, config.layer.embed_dim)),
      norm_(normOf(config, config.layer.embed_dim)) {}

std::vector<Parameter> EncoderModel::LayerInputs::Block::ownParameters() {
  return {plainParameter("factor", {1}, &factor_, ParameterKind::kBuffer, InitialValue::constant(1))};
}

EncoderModel::LayerInputs::LayerInputs(const EncoderModelConfig& config) : norm_(signalNorm(config)) {
  for (Index i = 0; i < config.num_layers; ++i) {
    signals_.push_back(std::make_unique<Linear>(linear(config, config.layer.embed_dim, config.layer_input_dim)));
    blocks_.push_back(std::make_unique<Block>(config));
  }
}

Value EncoderModel::LayerInputs::forward(Evaluator& e, Index i, const Value& x, const Value& embeddings) const {
  const auto at = static_cast<size_t>(i);
  const Block& block = *blocks_[at];
  Evaluator::Scope scope(e);
  const Value signal = e.normalize(norm_, signals_[at]->forward(e, embeddings), true);
  const Value gated = e.multiply(block.gate_.forward(e, x), signal);
  const Value output = e.normalize(block.norm_, block.out_.forward(e, gated, nullptr, true), true);
  return scope.leave(e.scale(e.add(x, output), block.factor_));
}

std::vector<Linear*> EncoderModel::LayerInputs::linears() {
  std::vector<Linear*> all;
  all.reserve(signals_.size() + 2 * blocks_.size());
  for (const auto& signal : signals_) all.push_back(signal.get());
  for (const auto& block : blocks_) all.insert(all.end(), {&block->gate_, &block->out_});
  return all;
}

std::vector<Parameter> EncoderModel::LayerInputs::ownParameters() {
  if (signals_.empty()) return {};
  Parameter all = signals_[0]->ownParameters()[0];
  const Index rows = all.shape[0];
  all.name = "proj.weight";
  all.shape = {static_cast<Index>(signals_.size()) * rows, all.shape[1]};
  for (size_t i = 1; i < signals_.size(); ++i) all.parts.push_back(signals_[i]->ownParameters()[0].parts[0]);
  return {all};
}

}  // namespace heed
