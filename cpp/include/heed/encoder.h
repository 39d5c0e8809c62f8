#pragma once

#include <memory>
#include <optional>

#include "heed/dropout.h"
#include "heed/multi_head_attention.h"
#include "heed/norm.h"

namespace heed {

struct FeedForwardOptions {
  Index embed_dim;
  Index feed_forward_dim;
  Activation activation = Activation::kRelu;
  float dropout = 0;
  bool bias = true;
  bool gated = false;  ///< phi(W_1a x) * (W_1b x) between the two products (Shazeer 2020, arXiv:2002.05202): linear1 is
                       ///< (2 F, E), the activated half first
  Precision precision = Precision::kFloat32;
};

/// W_2 Dropout(phi(W_1 x + b_1)) + b_2 at every position. Parameters linear1.{weight (F, E), bias}, linear2.{weight (E,
/// F), bias}.
class FeedForward : public Module {
 public:
  explicit FeedForward(const FeedForwardOptions& options);
  /// x, output (T, E); `residual` (T, E) is added where given (may be output itself).
  void forward(ConstMatrixView x, MatrixView output, Arena& arena, const ConstMatrixView* residual = nullptr);
  const FeedForwardOptions& options() const { return options_; }
  void collect(const std::string& prefix, std::vector<Parameter>& out) override;
  void setTraining(bool training) override;
  void seed(uint64_t seed) override { dropout_.seed(seed); }

 private:
  FeedForwardOptions options_;
  Linear linear1_, linear2_;
  Dropout dropout_;
};

struct EncoderLayerOptions {
  Index embed_dim;
  Index num_heads;
  Index feed_forward_dim;
  Index key_dim = 0;  ///< per head, as MultiHeadAttentionOptions; not the default in a pruned layer
  Index value_dim = 0;
  Activation activation = Activation::kRelu;
  bool norm_first = false;  ///< pre-norm: x + f(LN(x)); post-norm: LN(x + f(x))
  float eps = 1e-5f;
  float dropout = 0.1f;
  bool bias = true;            ///< of the projections and the feed-forward
  bool norm_bias = true;       ///< of the layer norms
  bool gated = false;          ///< the feed-forward is a gated one
  bool attention_norm = true;  ///< false: no norm before the attention (ModernBERT's first layer, pre-norm only)
  Precision precision = Precision::kFloat32;
};

/// Post-norm: a = LN(x + Dropout(MHA(x))); y = LN(a + FF(a)). Pre-norm: a = x + Dropout(MHA(LN(x))); y = a + FF(LN(a)).
/// torch.nn.TransformerEncoderLayer, batch_first. Parameters self_attn.*, linear1.*, linear2.*, norm1.*, norm2.*.
class EncoderLayer : public Module {
 public:
  explicit EncoderLayer(const EncoderLayerOptions& options);
  /// x, output (T, E), which may be the same; `weights` as in attention().
  void forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options, MatrixView output,
               float* weights, Arena& arena);
  const EncoderLayerOptions& options() const { return options_; }
  void collect(const std::string& prefix, std::vector<Parameter>& out) override;
  void setTraining(bool training) override;
  void seed(uint64_t seed) override;
  MultiHeadAttention& selfAttention() { return self_attn_; }

 private:
  EncoderLayerOptions options_;
  MultiHeadAttention self_attn_;
  FeedForward feed_forward_;
  LayerNorm norm1_, norm2_;
  Dropout dropout_;
};

/// N encoder layers, and a norm after the last where `final_norm` (torch.nn.TransformerEncoder). Parameters layers.0.*,
/// ..., norm.*.
class Encoder : public Module {
 public:
  /// `heads`: of each layer, where they differ, as after pruning; empty: options.num_heads in all.
  Encoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm, std::span<const Index> heads = {});
  /// `weights` empty, or one pointer a layer.
  void forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options, MatrixView output,
               std::span<float* const> weights, Arena& arena);
  Index numLayers() const { return static_cast<Index>(layers_.size()); }
  EncoderLayer& layer(Index i) { return *layers_[static_cast<size_t>(i)]; }
  const LayerNorm* finalNorm() const { return norm_ ? &*norm_ : nullptr; }
  void collect(const std::string& prefix, std::vector<Parameter>& out) override;
  void setTraining(bool training) override;
  void seed(uint64_t seed) override;

 private:
  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  std::optional<LayerNorm> norm_;
};

}  // namespace heed
