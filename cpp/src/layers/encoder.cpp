#include "heed/encoder.h"

#include "kernels/activation.h"

namespace heed {

FeedForward::FeedForward(const FeedForwardOptions& o)
    : options_(o),
      linear1_({.in_features = o.embed_dim,
                .out_features = (o.gated ? 2 : 1) * o.feed_forward_dim,
                .bias = o.bias,
                .activation = o.gated ? Activation::kIdentity : o.activation,
                .precision = o.precision}),
      linear2_({.in_features = o.feed_forward_dim, .out_features = o.embed_dim, .bias = o.bias, .precision = o.precision}),
      generator_(0) {}

void FeedForward::forward(ConstMatrixView x, MatrixView output, Arena& arena, const ConstMatrixView* residual) {
  const Arena::Scope scope(arena);
  const Index width = options_.feed_forward_dim;
  MatrixView hidden = arena.matrix(x.rows(), (options_.gated ? 2 : 1) * width);
  linear1_.forward(x, hidden, arena);
  MatrixView inner = view(hidden.data(), x.rows(), width, hidden.outerStride());
  if (options_.gated) {
    activate(inner, options_.activation);
    inner.array() *= hidden.rightCols(width).array();
  }
  if (training() && options_.dropout > 0) dropout(readOnly(inner), options_.dropout, DropoutScaling::kInverted, generator_, inner);
  linear2_.forward(readOnly(inner), output, arena, residual);
}

void FeedForward::collect(const std::string& prefix, std::vector<Parameter>& out) {
  linear1_.collect(prefix + "linear1.", out);
  linear2_.collect(prefix + "linear2.", out);
}

EncoderLayer::EncoderLayer(const EncoderLayerOptions& o)
    : options_(o),
      self_attn_({.embed_dim = o.embed_dim, .num_heads = o.num_heads, .key_dim = o.key_dim, .value_dim = o.value_dim, .bias = o.bias, .dropout = o.dropout, .precision = o.precision}),
      feed_forward_({.embed_dim = o.embed_dim,
                     .feed_forward_dim = o.feed_forward_dim,
                     .activation = o.activation,
                     .dropout = o.dropout,
                     .bias = o.bias,
                     .gated = o.gated,
                     .precision = o.precision}),
      norm1_({.normalized_shape = o.embed_dim, .eps = o.eps, .bias = o.norm_bias}),
      norm2_({.normalized_shape = o.embed_dim, .eps = o.eps, .bias = o.norm_bias}),
      generator_(0) {}

void EncoderLayer::forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options, MatrixView output,
                           float* weights, Arena& arena) {
  const Arena::Scope scope(arena);
  const bool draws = training() && options_.dropout > 0;
  // output = residual + Dropout(f(...)); without draws the product's own epilogue adds the residual.
  const auto added = [&](ConstMatrixView residual, MatrixView sum, auto block) {
    if (!draws) return block(sum, &residual);
    MatrixView y = arena.matrix(x.rows(), x.cols());
    block(y, static_cast<const ConstMatrixView*>(nullptr));
    dropout(readOnly(y), options_.dropout, DropoutScaling::kInverted, generator_, y);
    sum = residual + y;
  };
  const auto attended = [&](ConstMatrixView in, ConstMatrixView residual, MatrixView sum) {
    added(residual, sum, [&](MatrixView out, const ConstMatrixView* plus) {
      self_attn_.forward(in, in, in, sequences, sequences, options, out, weights, arena, plus);
    });
  };
  const auto fed = [&](ConstMatrixView in, ConstMatrixView residual, MatrixView sum) {
    added(residual, sum, [&](MatrixView out, const ConstMatrixView* plus) { feed_forward_.forward(in, out, arena, plus); });
  };

  MatrixView a = arena.matrix(x.rows(), x.cols());
  if (options_.norm_first) {
    MatrixView normed = arena.matrix(x.rows(), x.cols());
    if (options_.attention_norm) norm1_.forward(x, normed);
    attended(options_.attention_norm ? readOnly(normed) : x, x, a);
    norm2_.forward(readOnly(a), normed);
    fed(readOnly(normed), readOnly(a), output);
  } else {
    attended(x, x, a);
    norm1_.forward(readOnly(a), a);
    fed(readOnly(a), readOnly(a), output);
    norm2_.forward(readOnly(output), output);
  }
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
}

void EncoderLayer::seed(uint64_t seed) {
  // Three streams of their own: the layer must not drop the same entries in its parts.
  Generator streams(seed);
  const auto next = [&] { return (static_cast<uint64_t>(streams.next()) << 32) | streams.next(); };
  self_attn_.seed(next());
  feed_forward_.seed(next());
  generator_ = Generator(next());
}

Encoder::Encoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm) {
  for (Index i = 0; i < num_layers; ++i) layers_.push_back(std::make_unique<EncoderLayer>(options));
  if (final_norm) norm_.emplace(LayerNormOptions{.normalized_shape = options.embed_dim, .eps = options.eps, .bias = options.norm_bias});
}

void Encoder::forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options, MatrixView output,
                      std::span<float* const> weights, Arena& arena) {
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
  for (auto& layer : layers_) layer->seed((static_cast<uint64_t>(streams.next()) << 32) | streams.next());
}

}  // namespace heed
