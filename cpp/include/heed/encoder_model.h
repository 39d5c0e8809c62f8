#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/encoder.h"

namespace heed {

/// How an encoder represents positions.
enum class Positions {
  kAbsolute,  ///< learned embeddings, added to the tokens' (BERT)
  kRelative,  ///< MPNet: learned absolute embeddings and one bucketed score bias shared by all layers
  kRotary,    ///< queries and keys turned in each layer (ModernBERT, NomicBERT)
};

/// The published encoder architectures as options of one stack. The TypeScript API fills this from config.json.
struct EncoderModelConfig {
  Index vocab_size;
  Index embed_dim;          ///< E
  Index embedding_dim = 0;  ///< width of the embedding tables where factored (ELECTRA, ALBERT), then projected to E; 0:
                            ///< E wide, no projection
  Index num_layers;
  Index num_heads;
  Index feed_forward_dim;
  Index max_positions;  ///< rows of the position table, the longest text being max_positions - position_offset; for
                        ///< rotary, the longest text
  Index position_offset = 0;  ///< the first token's position: 0, or padding_idx + 1 (RoBERTa, MPNet)
  Index type_vocab_size = 0;  ///< rows of the token type table; 0: none
  Activation activation = Activation::kGelu;
  float eps = 1e-12f;
  Positions positions = Positions::kAbsolute;
  Index relative_buckets = 0;        ///< kRelative
  Index relative_distance = 128;     ///< kRelative: where the buckets end
  Index rotary_dim = 0;              ///< kRotary; features of a head that turn
  double rotary_base = 10000;        ///< in layers with global attention
  double local_rotary_base = 10000;  ///< in layers with a window
  Index window = -1;                 ///< |i - j| <= window in local layers; -1: none
  Index global_every = 1;            ///< layer i attends globally where i % global_every == 0
  bool norm_first = false;
  bool embedding_norm = true;
  bool final_norm = false;
  bool bias = true;
  bool norm_bias = true;
  bool gated = false;
  bool first_attention_norm = true;           ///< ModernBERT's layer 0 has none
  bool shared_layers = false;                 ///< ALBERT: num_layers passes through one layer's weights
  Precision precision = Precision::kFloat32;  ///< of matrices and of the word table
};

/// A batch of texts as concatenated tokens. T = all tokens together.
struct TokenBatch {
  std::vector<int32_t> ids;          ///< (T)
  std::vector<int32_t> token_types;  ///< (T), or empty: all 0
  std::vector<int32_t>
      positions;  ///< (T) rows of the position table, or empty: position_offset + 0, 1, 2, ... in each text
  Sequences sequences;
};

/// Embeddings (Devlin et al. 2018, arXiv:1810.04805) and a stack of encoder layers, run one layer at a time so that a
/// caller may stop, report or look in between:
///
///   model.embed(batch, hidden, context);
///   for (i < numLayers()) model.runLayer(i, batch.sequences, {...}, hidden, weights, context);
///   model.finish(hidden);
///
/// Parameters: embeddings.word.weight (V, D), embeddings.position.weight (P, D), embeddings.token_type.weight,
/// embeddings.norm.{weight,bias}, embeddings.projection.{weight,bias} where factored, relative_attention_bias.weight
/// (buckets, H), layers.<i>.* as Encoder's (only layers.0 where shared), norm.*.
class EncoderModel : public Module {
 public:
  /// Throws kInvalidArgument for a config that makes no sense and kOutOfMemory for one that cannot fit.
  explicit EncoderModel(const EncoderModelConfig& config);
  ~EncoderModel() override;

  /// hidden (T, E). Throws kInvalidArgument for an id outside the vocabulary or a text longer than the model's
  /// positions.
  void embed(const TokenBatch& batch, MatrixView hidden, Context& context) const;
  /// Layer i, in place. `head_mask` (H) or empty; `weights` null or as AttentionOutput's.
  void runLayer(Index i, const Sequences& sequences, std::span<const float> head_mask, MatrixView hidden,
                float* weights, Context& context);
  /// The final norm, where the model has one.
  void finish(MatrixView hidden) const;
  /// x (rows, D) W_word^T -> output (rows, V): the tied output layer of masked language models, without its bias.
  void wordLogits(ConstMatrixView x, MatrixView output, Context& context) const;

  Index numLayers() const { return config_.num_layers; }
  const EncoderModelConfig& config() const { return config_; }

 private:
  class Embeddings;
  struct PositionTables;
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;
  void updateRelativeBias();

  EncoderModelConfig config_;
  std::unique_ptr<Embeddings> embeddings_;
  std::unique_ptr<PositionTables> positions_;
  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  std::optional<LayerNorm> norm_;
};

}  // namespace heed
