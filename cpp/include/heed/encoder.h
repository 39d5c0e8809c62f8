#pragma once

#include <memory>
#include <optional>

#include "heed/dropout.h"
#include "heed/feed_forward.h"
#include "heed/multi_head_attention.h"
#include "heed/norm.h"

namespace heed {

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
  bool gated = false;          ///< a gated feed-forward
  bool attention_norm = true;  ///< false: no norm before the attention (ModernBERT's first layer, pre-norm only)
  Precision precision = Precision::kFloat32;

  /// Dk with its default filled in.
  Index headWidth() const { return key_dim ? key_dim : embed_dim / std::max<Index>(num_heads, 1); }
};

/// Post-norm: a = LN(x + Dropout(MHA(x))); y = LN(a + FF(a)). Pre-norm: a = x + Dropout(MHA(LN(x))); y = a + FF(LN(a)).
/// torch.nn.TransformerEncoderLayer, batch_first. Parameters self_attn.*, linear1.*, linear2.*, norm1.*, norm2.*.
class EncoderLayer final : public Module {
 public:
  explicit EncoderLayer(const EncoderLayerOptions& options);
  /// x, output (T, E), which may be the same; `weights` as AttentionOutput's.
  void forward(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options, MatrixView output,
               float* weights, Context& context);
  const EncoderLayerOptions& options() const { return options_; }
  MultiHeadAttention& selfAttention() { return self_attn_; }

 private:
  std::vector<Child> children() override;
  void selfAttentionBlock(ConstMatrixView x, const Sequences& sequences, const MultiHeadCallOptions& options,
                          MatrixView output, float* weights, Context& context);
  void feedForwardBlock(MatrixView x, Context& context);

  EncoderLayerOptions options_;
  MultiHeadAttention self_attn_;
  FeedForward feed_forward_;
  LayerNorm norm1_, norm2_;
  Dropout dropout1_, dropout2_;
};

/// Options of one call of a stack: those of every layer, and what differs between layers.
struct EncoderCallOptions : MultiHeadCallOptions {
  EncoderCallOptions() = default;
  EncoderCallOptions(const MultiHeadCallOptions& all_layers)  // NOLINT(google-explicit-constructor)
      : MultiHeadCallOptions(all_layers) {}

  /// Masks that each layer broadcasts to its own number of heads, instead of `masks`.
  std::span<const MaskTensor> mask_tensors;
  /// (layers, most heads of a layer) instead of `head_mask`, or empty.
  std::span<const float> layer_head_masks;
};

/// N encoder layers, and a norm after the last where `final_norm` (torch.nn.TransformerEncoder). Parameters layers.0.*,
/// ..., norm.*.
class Encoder final : public Module {
 public:
  /// `heads`: of each layer, where they differ, as after pruning; empty: options.num_heads in all.
  Encoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm, std::span<const Index> heads = {});
  /// x, output (T, E), which may be the same; `weights` empty, or one pointer per layer.
  void forward(ConstMatrixView x, const Sequences& sequences, const EncoderCallOptions& options, MatrixView output,
               std::span<float* const> weights, Context& context);
  Index numLayers() const { return static_cast<Index>(layers_.size()); }
  EncoderLayer& layer(Index i) { return *layers_[static_cast<size_t>(i)]; }
  const LayerNorm* finalNorm() const { return norm_ ? &*norm_ : nullptr; }
  /// The most heads of any layer.
  Index mostHeads() const;

 private:
  std::vector<Child> children() override;

  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  std::optional<LayerNorm> norm_;
};

}  // namespace heed
