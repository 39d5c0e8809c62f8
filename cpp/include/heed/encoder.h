#pragma once

#include <memory>
#include <optional>

#include "heed/dropout.h"
#include "heed/feed_forward.h"
#include "heed/multi_head_attention.h"
#include "heed/norm.h"

/// Notation: N sequences, T rows of all sequences, E width of the model, H heads, F width of the feed-forward.
namespace heed {

struct EncoderLayerOptions {
  Index embed_dim;                ///< E, also of `attention`, `feed_forward` and `norm`
  bool bias = true;               ///< biases in the projections and the feed-forward
  bool attention_bias = true;     ///< false: no biases in the projections, whatever `bias` is
  bool feed_forward_bias = true;  ///< false: no biases in the feed-forward, whatever `bias` is
  float dropout = 0.1f;           ///< rate on the attention weights, the hidden features and each block's output
  MultiHeadAttentionOptions attention = {};  ///< of the self-attention and, in decoder layers, of the cross-attention
  FeedForwardOptions feed_forward = {};
  LayerNormOptions norm = {};  ///< of every norm
  bool norm_first = false;     ///< pre-norm: x + f(LN(x)); post-norm: LN(x + f(x))
  bool attention_norm = true;  ///< false: no norm before the attention (ModernBERT's first layer, pre-norm only)
  bool output_norms = false;   ///< another norm on each block's output, before the residual connection (Gemma)
  bool layer_scale = false;    ///< factors on each block's output, before the residual connection (DINOv2)
  bool nested_norm = false;    ///< post-norm: the attention block is LN(x + LN'(x + MHA(x))) (JinaBERT)
  Precision precision = Precision::kFloat32;

  /// Dk: attention.key_dim with its default filled in.
  Index headWidth() const {
    return attention.key_dim ? attention.key_dim : embed_dim / std::max<Index>(attention.num_heads, 1);
  }
  /// Copies the options that the parts share to `attention`, `feed_forward` and `norm`.
  EncoderLayerOptions completed() const;
};

/// Post-norm: a = LN(x + Dropout(MHA(x))), y = LN(a + Dropout(FF(a))).
/// Pre-norm: a = x + Dropout(MHA(LN(x))), y = a + Dropout(FF(LN(a))).
/// With output_norms or layer_scale, MHA and FF are each followed by a norm or by factors. Like
/// torch.nn.TransformerEncoderLayer with batch_first.
/// Parameters: self_attn.*, linear1.*, linear2.*, norm1.*, norm2.*, output_norm1.*, output_norm2.*, nested_norm.*,
/// layer_scale1.weight, layer_scale2.weight.
class EncoderLayer final : public Module {
 public:
  explicit EncoderLayer(const EncoderLayerOptions& options);
  /// x and result (T, E); consumes x. `weights` as in AttentionOutput. The sites kInput and kOutput are left to the
  /// caller. Throws kShapeMismatch.
  Value forward(Evaluator& e, const Value& x, const Sequences& sequences, const AttentionOptions& options,
                float* weights = nullptr);
  const EncoderLayerOptions& options() const { return options_; }
  MultiHeadAttention& selfAttention() { return self_attn_; }
  FeedForward& feedForward() { return feed_forward_; }
  /// The norm before the attention block (pre-norm) or after it (post-norm); null if there is none.
  const LayerNorm* norm1() const { return options_.attention_norm ? &norm1_ : nullptr; }
  Dropout& dropout1() { return dropout1_; }
  Dropout& dropout2() { return dropout2_; }

 private:
  std::vector<Child> children() override;
  Value selfAttentionBlock(Evaluator& e, const Value& x, const Sequences& sequences, const AttentionOptions& options,
                           float* weights);

  EncoderLayerOptions options_;
  MultiHeadAttention self_attn_;
  FeedForward feed_forward_;
  LayerNorm norm1_, norm2_;
  std::optional<LayerNorm> output_norm1_, output_norm2_, nested_norm_;
  std::optional<LayerScale> layer_scale1_, layer_scale2_;
  Dropout dropout1_, dropout2_;
};

/// A stack of encoder layers with an optional final norm (torch.nn.TransformerEncoder). Parameters: layers.0.*, ...,
/// norm.*.
class Encoder final : public Module {
 public:
  /// `heads`: the number of heads of each layer, for pruned stacks; empty: options.num_heads in every layer.
  Encoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm, std::span<const Index> heads = {});
  /// x and result (T, E); consumes x. `weights` is empty or has one pointer per layer, as in AttentionOutput; the head
  /// mask is (layers, maxHeads()).
  Value forward(Evaluator& e, const Value& x, const Sequences& sequences, const AttentionOptions& options,
                std::span<float* const> weights = {});
  Index numLayers() const { return static_cast<Index>(layers_.size()); }
  EncoderLayer& layer(Index i) { return *layers_[static_cast<size_t>(i)]; }
  const LayerNorm* finalNorm() const { return norm_ ? &*norm_ : nullptr; }
  /// The largest number of heads of any layer.
  Index maxHeads() const;

 private:
  std::vector<Child> children() override { return stackChildren(layers_, norm_); }

  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  std::optional<LayerNorm> norm_;
};

}  // namespace heed
