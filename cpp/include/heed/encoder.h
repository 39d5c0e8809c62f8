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
  Index embed_dim;            ///< E
  Index num_heads;            ///< H
  Index feed_forward_dim;     ///< F
  Index key_dim = 0;          ///< Dk, width of one head's queries and keys; 0: E / H. Set in layers with pruned heads
  Index value_dim = 0;        ///< Dv, width of one head's values; 0: E / H. Set in layers with pruned heads
  Index key_value_heads = 0;  ///< number of heads of keys and values, a divisor of H; 0: H
  Activation activation = Activation::kRelu;
  bool norm_first = false;  ///< pre-norm: x + f(LN(x)); post-norm: LN(x + f(x))
  float eps = 1e-5f;
  float dropout = 0.1f;          ///< rate on the attention weights, the hidden features and the output of each block
  bool bias = true;              ///< biases in the projections and the feed-forward
  bool norm_bias = true;         ///< biases in the layer norms
  bool gated = false;            ///< gated feed-forward, see FeedForwardOptions
  bool gate_second = false;      ///< gated: activate the second half of linear1's output instead of the first
  bool linear1_bias = true;      ///< false: linear1 has no bias, whatever `bias` is
  bool attention_norm = true;    ///< false: no norm before the attention (ModernBERT's first layer, pre-norm only)
  bool output_norms = false;     ///< another norm on each block's output, before the residual connection (Gemma)
  bool layer_scale = false;      ///< factors on each block's output, before the residual connection (DINOv2)
  bool rms_norm = false;         ///< every norm is an RMSNorm instead of a layer norm
  float norm_weight_offset = 0;  ///< added to the weights of every RMSNorm; 1 in Gemma
  bool qk_norm = false;          ///< norms over the queries and over the keys of each head (Qwen3, Gemma 3)
  bool joint_qk_norm = false;    ///< one norm over all heads' queries, one over all heads' keys (JinaBERT)
  bool nested_norm = false;      ///< post-norm: the attention block is LN(x + LN'(x + MHA(x))) (JinaBERT)
  bool position_projections = false;  ///< separate projections of the distance embeddings, see
                                      ///< MultiHeadAttentionOptions
  Precision precision = Precision::kFloat32;

  /// Dk: key_dim with its default filled in.
  Index headWidth() const { return key_dim ? key_dim : embed_dim / std::max<Index>(num_heads, 1); }
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
