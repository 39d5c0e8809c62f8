#pragma once

#include "heed/encoder.h"

namespace heed {

/// Masks of one decoder call: over the target itself, and over the memory.
struct DecoderCallOptions {
  MultiHeadCallOptions self;
  MultiHeadCallOptions memory;
};

/// Room for the weights of one decoder layer; each null or as AttentionOutput's.
struct DecoderWeights {
  float* self = nullptr;
  float* memory = nullptr;
};

/// What a decoder reads: target (sum L_n, E), and memory (sum S_n, E), the encoder's output.
struct DecoderInput {
  ConstMatrixView target, memory;
  const Sequences& targets;   ///< L_n
  const Sequences& memories;  ///< S_n
};

/// Keys and values of N equally long sequences in one layer, kept between steps of decoding.
struct DecoderLayerCache {
  /// Rows of N sequences that grow at their ends: those of sequence n begin at row n capacity.
  struct GrowingRows {
    std::vector<float> values;
    Index capacity = 0;
  };
  Index count = 1;                              ///< N
  Index length = 0;                             ///< rows decoded so far, of each
  GrowingRows self_key, self_value;             ///< (length, H Dk) and (length, H Dv) of each
  std::vector<float> memory_key, memory_value;  ///< (N S, H Dk) and (N S, H Dv), projected once
};

/// Causal self-attention, cross-attention to the encoder's output, feed-forward; each with its residual and norm, pre-
/// or post-norm (torch.nn.TransformerDecoderLayer, batch_first). Parameters self_attn.*, multihead_attn.*, linear1.*,
/// linear2.*, norm1.*, norm2.*, norm3.*.
class DecoderLayer final : public Module {
 public:
  explicit DecoderLayer(const EncoderLayerOptions& options);
  /// output (sum L_n, E), which may be the target.
  void forward(const DecoderInput& input, const DecoderCallOptions& options, MatrixView output, DecoderWeights weights,
               Context& context);

  using Cache = DecoderLayerCache;
  /// memory (N S, E), N = `count`.
  Cache makeCache(ConstMatrixView memory, Context& context, Index count = 1);
  /// The next rows of each sequence, target (N L_new, E), given all before them; equals the rows of a full causal pass.
  /// Self-attention is causal whatever `options` says; its masks broadcast to (N, H, L_new, length + L_new), the
  /// memory's to (N, H, L_new, S). A step that throws leaves the cache as it was.
  void step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output,
            DecoderWeights weights, Context& context);

  const EncoderLayerOptions& options() const { return options_; }

 private:
  std::vector<Child> children() override;
  /// The three blocks; `self_attention` and `cross_attention` take (in, out, residual) as residualBlock()'s block.
  template <class SelfAttention, class CrossAttention>
  void blocks(ConstMatrixView target, const SelfAttention& self_attention, const CrossAttention& cross_attention,
              MatrixView output, Context& context);
  void cachedSelfAttention(ConstMatrixView in, Cache& cache, const MultiHeadCallOptions& options,
                           const MultiHeadOutput& result, Context& context);
  void cachedCrossAttention(ConstMatrixView in, const Cache& cache, const MultiHeadCallOptions& options,
                            const MultiHeadOutput& result, Context& context);

  EncoderLayerOptions options_;
  MultiHeadAttention self_attn_, multihead_attn_;
  FeedForward feed_forward_;
  LayerNorm norm1_, norm2_, norm3_;
  Dropout dropout1_, dropout2_, dropout3_;
};

/// N decoder layers and an optional final norm (torch.nn.TransformerDecoder). Parameters layers.0.*, ..., norm.*.
class Decoder final : public Module {
 public:
  Decoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm);
  /// `weights` empty, or one entry per layer.
  void forward(const DecoderInput& input, const DecoderCallOptions& options, MatrixView output,
               std::span<const DecoderWeights> weights, Context& context);
  using Cache = std::vector<DecoderLayerCache>;
  Cache makeCache(ConstMatrixView memory, Context& context, Index count = 1);
  void step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output,
            Context& context);
  Index numLayers() const { return static_cast<Index>(layers_.size()); }
  DecoderLayer& layer(Index i) { return *layers_[static_cast<size_t>(i)]; }

 private:
  std::vector<Child> children() override;

  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  std::optional<LayerNorm> norm_;
};

}  // namespace heed
