#pragma once

#include "heed/encoder.h"

namespace heed {

/// Masks of one decoder call: over the target itself, and over the memory.
struct DecoderCallOptions {
  MultiHeadCallOptions self;  ///< causal by default in Decoder calls from the face; here as given
  MultiHeadCallOptions memory;
};

/// Room for the weights of one decoder layer; each null or as in attention().
struct DecoderWeights {
  float* self = nullptr;
  float* memory = nullptr;
};

/// Causal self-attention, cross-attention to the encoder's output, feed-forward; each with its residual and norm, pre-
/// or post-norm (torch.nn.TransformerDecoderLayer, batch_first). Parameters self_attn.*, multihead_attn.*, linear1.*,
/// linear2.*, norm1.*, norm2.*, norm3.*.
class DecoderLayer : public Module {
 public:
  explicit DecoderLayer(const EncoderLayerOptions& options);
  /// target, output (sum L_n, E); memory (sum S_n, E).
  void forward(ConstMatrixView target, ConstMatrixView memory, const Sequences& targets, const Sequences& memories,
               const DecoderCallOptions& options, MatrixView output, DecoderWeights weights, Arena& arena);

  /// Rows of N sequences that grow at their ends: those of sequence n begin at row n capacity.
  struct GrowingRows {
    std::vector<float> values;
    Index capacity = 0;
  };
  /// Keys and values of N equally long sequences, kept between steps of decoding.
  struct Cache {
    Index count = 1;                              ///< N
    Index length = 0;                             ///< rows decoded so far, of each
    GrowingRows self_key, self_value;             ///< (length, H Dk) and (length, H Dv) of each
    std::vector<float> memory_key, memory_value;  ///< (N S, H Dk) and (N S, H Dv), projected once
  };
  /// memory (N S, E), N = `count`.
  Cache makeCache(ConstMatrixView memory, Arena& arena, Index count = 1);
  /// The next rows of each sequence, target (N L_new, E), given all before them; equals the rows of a full causal pass.
  /// Self-attention is causal whatever `options` says; its masks broadcast to (N, H, L_new, length + L_new), the
  /// memory's to (N, H, L_new, S). A step that throws leaves the cache as it was.
  void step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output,
            DecoderWeights weights, Arena& arena);

  const EncoderLayerOptions& options() const { return options_; }
  void collect(const std::string& prefix, std::vector<Parameter>& out) override;
  void setTraining(bool training) override;
  void seed(uint64_t seed) override;

 private:
  /// The three blocks; `self` and `cross` take (in, out, plus) as Residual's f.
  template <class SelfAttention, class CrossAttention>
  void run(ConstMatrixView target, const SelfAttention& self, const CrossAttention& cross, MatrixView output,
           Arena& arena);

  EncoderLayerOptions options_;
  MultiHeadAttention self_attn_, multihead_attn_;
  FeedForward feed_forward_;
  LayerNorm norm1_, norm2_, norm3_;
  Dropout dropout_;
};

/// N decoder layers and an optional final norm (torch.nn.TransformerDecoder). Parameters layers.0.*, ..., norm.*.
class Decoder : public Module {
 public:
  Decoder(const EncoderLayerOptions& options, Index num_layers, bool final_norm);
  void forward(ConstMatrixView target, ConstMatrixView memory, const Sequences& targets, const Sequences& memories,
               const DecoderCallOptions& options, MatrixView output, std::span<const DecoderWeights> weights,
               Arena& arena);
  using Cache = std::vector<DecoderLayer::Cache>;
  Cache makeCache(ConstMatrixView memory, Arena& arena, Index count = 1);
  void step(ConstMatrixView target, Cache& cache, const DecoderCallOptions& options, MatrixView output, Arena& arena);
  Index numLayers() const { return static_cast<Index>(layers_.size()); }
  void collect(const std::string& prefix, std::vector<Parameter>& out) override;
  void setTraining(bool training) override;
  void seed(uint64_t seed) override;

 private:
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  std::optional<LayerNorm> norm_;
};

}  // namespace heed
