#pragma once

#include "heed/encoder.h"

/// Notation: N sequences, L_n target rows and S_n memory rows of sequence n, E width of the model, H heads, Dk and Dv
/// width of one head's keys and values.
namespace heed {

/// Options of one decoder call: for the self-attention over the target and the cross-attention to the memory.
struct DecoderCallOptions {
  AttentionOptions self;
  AttentionOptions memory;
};

/// Attention weights of one decoder layer; each pointer is null or as in AttentionOutput.
struct DecoderWeights {
  float* self = nullptr;
  float* memory = nullptr;
};

/// Inputs of a decoder: target (sum L_n, E) and memory (sum S_n, E), the output of the encoder.
struct DecoderInput {
  Value target, memory;
  const Sequences& targets;   ///< L_n
  const Sequences& memories;  ///< S_n
};

/// Keys and values of one layer for N sequences of equal length, stored between decoding steps.
struct DecoderLayerCache {
  /// Rows of N sequences, with space for more: the rows of sequence n begin at row n * capacity.
  struct GrowingRows {
    std::vector<float> values;
    Index capacity = 0;
  };
  Index count = 1;                              ///< N
  Index key_width = 0, value_width = 0;         ///< H Dk and H Dv of the layer that made the cache
  Index length = 0;                             ///< rows decoded so far, per sequence
  GrowingRows self_key, self_value;             ///< (length, H Dk) and (length, H Dv) per sequence
  std::vector<float> memory_key, memory_value;  ///< (N S, H Dk) and (N S, H Dv), projected once
};

/// Self-attention, cross-attention to the encoder's output, and a feed-forward network, each with a residual connection
/// and a norm before (pre-norm) or after it (post-norm), like torch.nn.TransformerDecoderLayer with batch_first.
/// Parameters: self_attn.*, multihead_attn.*, linear1.*, linear2.*, norm1.*, norm2.*, norm3.*.
class DecoderLayer final : public Module {
 public:
  explicit DecoderLayer(const EncoderLayerOptions& options);
  /// Returns (sum L_n, E); consumes the target. The sites kInput and kOutput are left to the caller; those of the
  /// cross-attention have the number of the next layer. Throws kShapeMismatch.
  Value forward(Evaluator& e, const DecoderInput& input, const DecoderCallOptions& options,
                const DecoderWeights& weights = {});

  using Cache = DecoderLayerCache;
  /// Projects memory (N S, E), N = `count` sequences of S rows, to keys and values. Throws kShapeMismatch.
  Cache makeCache(const Value& memory, Context& context, Index count = 1);
  /// Computes the next L_new rows of each sequence from target (N L_new, E). The result equals these rows of a full
  /// causal pass. The self-attention is always causal; its masks broadcast to (N, H, L_new, length + L_new), the masks
  /// of the memory to (N, H, L_new, S). Consumes the target. A step that throws leaves the cache unchanged. Steps are
  /// not recorded.
  Value step(Evaluator& e, const Value& target, Cache& cache, const DecoderCallOptions& options);

  const EncoderLayerOptions& options() const { return options_; }
  MultiHeadAttention& selfAttention() { return self_attn_; }
  MultiHeadAttention& crossAttention() { return multihead_attn_; }
  FeedForward& feedForward() { return feed_forward_; }
  Dropout& dropout1() { return dropout1_; }
  Dropout& dropout2() { return dropout2_; }
  Dropout& dropout3() { return dropout3_; }

 private:
  std::vector<Child> children() override;
  /// Runs the three blocks. `self_attention` and `cross_attention` are blocks as residualBlock() calls them.
  template <class SelfAttention, class CrossAttention>
  Value blocks(Evaluator& e, const Value& target, const Sequences& memories, const SelfAttention& self_attention,
               const CrossAttention& cross_attention);
  Value cachedSelfAttention(Evaluator& e, const Value& in, Cache& cache, const AttentionOptions& options,
                            const Value* residual);
  Value cachedCrossAttention(Evaluator& e, const Value& in, const Cache& cache, const AttentionOptions& options,
                             const Value* residual);

  EncoderLayerOptions options_;
  MultiHeadAttention self_attn_, multihead_attn_;
  FeedForward feed_forward_;
  LayerNorm norm1_, norm2_, norm3_;
  Dropout dropout1_, dropout2_, dropout3_;
};

/// A stack of decoder layers with an optional final norm (torch.nn.TransformerDecoder). Parameters: layers.0.*, ...,
/// norm.*.
class Decoder final : public Module {
 public:
  Decoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm);
  /// As DecoderLayer::forward(); `weights` is empty or has one entry per layer. The sites of layer i have number 2 i,
  /// those of its cross-attention 2 i + 1.
  Value forward(Evaluator& e, const DecoderInput& input, const DecoderCallOptions& options,
                std::span<const DecoderWeights> weights = {});
  using Cache = std::vector<DecoderLayerCache>;
  Cache makeCache(const Value& memory, Context& context, Index count = 1);
  Value step(Evaluator& e, const Value& target, Cache& cache, const DecoderCallOptions& options);
  Index numLayers() const { return static_cast<Index>(layers_.size()); }
  DecoderLayer& layer(Index i) { return *layers_[static_cast<size_t>(i)]; }
  const LayerNorm* finalNorm() const { return norm_ ? &*norm_ : nullptr; }

 private:
  std::vector<Child> children() override { return stackChildren(layers_, norm_); }

  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  std::optional<LayerNorm> norm_;
};

/// The complete encoder-decoder model (Vaswani et al. 2017, arXiv:1706.03762, figure 1), with a final norm after each
/// stack, like torch.nn.Transformer with batch_first. Parameters: encoder.*, decoder.*.
class Transformer final : public Module {
 public:
  Transformer(const EncoderLayerOptions& options, Index num_encoder_layers, Index num_decoder_layers);

  /// Notation: S_n source rows and L_n target rows of sequence n.
  struct Output {
    Value output;  ///< (sum L_n, E)
    Value memory;  ///< (sum S_n, E), the encoder's output
  };
  /// source (sum S_n, E), target (sum L_n, E); consumes both. The encoder's output is the decoder's memory. The weights
  /// are as in Encoder::forward() and Decoder::forward().
  Output forward(Evaluator& e, const Value& source, const Value& target, const Sequences& sources,
                 const Sequences& targets, const AttentionOptions& encoder_options,
                 const DecoderCallOptions& decoder_options, std::span<float* const> encoder_weights = {},
                 std::span<const DecoderWeights> decoder_weights = {});

  Encoder& encoder() { return encoder_; }
  Decoder& decoder() { return decoder_; }

 private:
  std::vector<Child> children() override { return {{"encoder", &encoder_}, {"decoder", &decoder_}}; }

  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace heed
