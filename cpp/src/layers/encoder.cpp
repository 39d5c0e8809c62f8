#include "heed/encoder.h"

#include "check.h"
#include "layers/blocks.h"

namespace heed {
namespace {

FeedForwardOptions checked(const FeedForwardOptions& options) {
  requireAtLeast("embedDim", options.embed_dim, 1);
  requireAtLeast("feedForwardDim", options.feed_forward_dim, 1);
  requireRoom("linear1.weight", {options.gated ? 2 : 1, options.feed_forward_dim, options.embed_dim});
  requireRate("dropout", options.dropout);
  return options;
}

}  // namespace

FeedForward::FeedForward(const FeedForwardOptions& options)
    : options_(checked(options)),
      linear1_({.in_features = options.embed_dim,
                .out_features = (options.gated ? 2 : 1) * options.feed_forward_dim,
                .bias = options.bias,
                .activation = options.gated ? Activation::kIdentity : options.activation,
                .precision = options.precision}),
      linear2_({.in_features = options.feed_forward_dim,
                .out_features = options.embed_dim,
                .bias = options.bias,
                .precision = options.precision}),
      dropout_({.p = options.dropout}) {}

void FeedForward::forward(ConstMatrixView x, MatrixView output, Arena& arena, const ConstMatrixView* residual) {
  const Arena::Scope scope(arena);
  const Index width = options_.feed_forward_dim;
  MatrixView hidden = arena.matrix(x.rows(), linear1_.options().out_features);
  linear1_.forward(x, hidden, arena);
  MatrixView inner = view(hidden.data(), x.rows(), width, hidden.outerStride());
  if (options_.gated) {
    activate(inner, options_.activation);
    inner.array() *= hidden.rightCols(width).array();
  }
  dropout_.forward(readOnly(inner), inner);
  linear2_.forward(readOnly(inner), output, arena, residual);
}

void FeedForward::collect(const std::string& prefix, std::vector<Parameter>& out) {
  linear1_.collect(prefix + "linear1.", out);
  linear2_.collect(prefix + "linear2.", out);
}

void FeedForward::setTraining(bool training) {
  Module::setTraining(training);
  dropout_.setTraining(training);
}

EncoderLayer::EncoderLayer(const EncoderLayerOptions& options)
    : options_(options),
      self_attn_(attentionOptions(options)),
      feed_forward_(feedForwardOptions(options)),
      norm1_(normOptions(options)),
      norm2_(normOptions(options)),
      dropout_({.p = options.dropout}) {}

void EncoderLayer::forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options,
                           MatrixView output, float* weights, Arena& arena) {
  const Residual attended(options_.attention_norm ? &norm1_ : nullptr, options_.norm_first, dropout_);
  const Residual fed(&norm2_, options_.norm_first, dropout_);
  const auto attend = [&](ConstMatrixView in, MatrixView out, const ConstMatrixView* plus) {
    self_attn_.forward(in, in, in, sequences, sequences, options, out, weights, arena, plus);
  };
  const auto feed = [&](ConstMatrixView in, MatrixView out, const ConstMatrixView* plus) {
    feed_forward_.forward(in, out, arena, plus);
  };

  requireShape("x", x, sequences.totalRows(), options_.embed_dim);
  requireShape("output", readOnly(output), x.rows(), x.cols());
  attended(x, attend, output, arena);
  fed(readOnly(output), feed, output, arena);
}

void EncoderLayer::collect(const std::string& prefix, std::vector<Parameter>& out) {
  self_attn_.collect(prefix + "self_attn.", out);
  feed_forward_.collect(prefix, out);
  if (options_.attention_norm) norm1_.collect(prefix + "norm1.", out);
  norm2_.collect(prefix + "norm2.", out);
}

void EncoderLayer::setTraining(bool training) {
  Module::setTraining(training);
  self_attn_.setTraining(training);
  feed_forward_.setTraining(training);
  dropout_.setTraining(training);
}

void EncoderLayer::seed(uint64_t seed) {
  // A stream for each part: they must not drop the same entries.
  Generator streams(seed);
  self_attn_.seed(streams.fork());
  feed_forward_.seed(streams.fork());
  dropout_.seed(streams.fork());
}

Encoder::Encoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm, std::span<const Index> heads) {
  requireAtLeast("numLayers", num_layers, 1);
  if (!heads.empty()) requireShape("heads", {static_cast<Index>(heads.size())}, {num_layers});
  EncoderLayerOptions layer = options;
  for (Index i = 0; i < num_layers; ++i) {
    if (!heads.empty()) layer.num_heads = heads[static_cast<size_t>(i)];
    layers_.push_back(std::make_unique<EncoderLayer>(layer));
    if (i == 0) requireRoom("numLayers", {num_layers, layers_[0]->parameterCount()});
  }
  if (final_norm) norm_.emplace(normOptions(options));
}

void Encoder::forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options,
                      MatrixView output, std::span<float* const> weights, Arena& arena) {
  requireShape("output", readOnly(output), x.rows(), x.cols());
  if (output.data() != x.data()) output = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->forward(readOnly(output), sequences, options, output, weights.empty() ? nullptr : weights[i], arena);
  }
  if (norm_) norm_->forward(readOnly(output), output);
}

void Encoder::collect(const std::string& prefix, std::vector<Parameter>& out) {
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i]->collect(prefix + "layers." + std::to_string(i) + ".", out);
  if (norm_) norm_->collect(prefix + "norm.", out);
}

void Encoder::setTraining(bool training) {
  Module::setTraining(training);
  for (auto& layer : layers_) layer->setTraining(training);
}

void Encoder::seed(uint64_t seed) {
  Generator streams(seed);
  for (auto& layer : layers_) layer->seed(streams.fork());
}

}  // namespace heed
