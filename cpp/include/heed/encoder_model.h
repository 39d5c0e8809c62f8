#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/encoder.h"

namespace heed::train {

class TrainableEncoder;

}  // namespace heed::train

namespace heed {

/// How an encoder represents positions.
enum class Positions {
  kAbsolute,      ///< learned embeddings, added to the tokens' (BERT)
  kRelative,      ///< MPNet: learned absolute embeddings and one bucketed score bias shared by all layers
  kRotary,        ///< queries and keys rotated in each layer (ModernBERT, NomicBERT)
  kAlibi,         ///< a penalty on the scores that grows with the distance (JinaBERT)
  kDisentangled,  ///< products of queries and keys with projected embeddings of their distance (DeBERTa v2 and v3)
};

/// Options that describe the published encoder architectures. The TypeScript API fills them in from config.json.
struct EncoderModelConfig {
  Index vocab_size;         ///< V; 0 for images
  Index embed_dim;          ///< E
  Index embedding_dim = 0;  ///< D, the width of factored embedding tables (ELECTRA, ALBERT), which are projected to E;
                            ///< 0: tables of width E, no projection
  Index num_layers;
  Index num_heads;
  Index key_value_heads = 0;  ///< heads of keys and values, a divisor of num_heads; 0: num_heads
  Index head_dim = 0;         ///< width of a head; 0: E / num_heads
  Index feed_forward_dim;
  Index max_positions;  ///< P, the rows of the position table; the longest text has P - position_offset tokens
  /// Side of an image's patches in pixels, 0: the model's input is tokens. See models/patch_embeddings.h
  /// for this and the next two. Positions are kAbsolute or kRotary, whose angles are given with each image.
  Index patch_size = 0;
  bool class_row = false;     ///< a learned row before those of the patches
  Index registers = 0;        ///< learned rows between it and those of the patches
  Index position_offset = 0;  ///< position of the first token: 0, or padding_idx + 1 (RoBERTa, MPNet)
  Index type_vocab_size = 0;  ///< rows of the token type table; 0: no table
  Activation activation = Activation::kGelu;
  float eps = 1e-12f;
  Positions positions = Positions::kAbsolute;
  Index relative_buckets = 0;        ///< kRelative: the number of buckets; kDisentangled: half of it, one side's
  Index relative_distance = 128;     ///< from which on all distances share the last bucket; kDisentangled with as many
                                     ///< buckets as distances: one bucket for each
  bool relative_norm = false;        ///< kDisentangled: layer norm of the embeddings of distances
  bool position_embeddings = false;  ///< kDisentangled: learned absolute embeddings are added to the tokens', too
  /// kDisentangled: each layer projects the embeddings of distances by matrices of its own, not by those of its keys
  /// and queries.
  bool position_projections = false;
  /// Width of a convolution over the embeddings, which is added to the first layer's output (DeBERTa v2 XLarge); odd,
  /// 0: none. See models/convolution_layer.h.
  Index convolution = 0;
  Activation convolution_activation = Activation::kTanh;
  Index rotary_dim = 0;              ///< kRotary: the number of rotated features per head
  double rotary_base = 10000;        ///< in layers with global attention
  double local_rotary_base = 10000;  ///< in layers with a window
  double rotary_scale = 1;           ///< factor on all angles
  Index window = -1;                 ///< |i - j| <= window in local layers; -1: none
  std::vector<bool> local_layers;    ///< (num_layers) which layers are local; empty: none
  bool causal = false;
  float attention_scale = 0;  ///< factor on the scores; 0: 1 / sqrt(width of a head)
  float embedding_scale = 1;  ///< factor on the rows of the word table
  bool norm_first = false;
  bool embedding_norm = true;
  bool final_norm = false;
  bool bias = true;
  bool norm_bias = true;
  bool rms_norm = false;         ///< all norms are RMSNorms, see LayerNormOptions, as is the next
  float norm_weight_offset = 0;  ///< 1: norms scale by 1 + weight (Gemma)
  bool qk_norm = false;          ///< norms on the queries and keys of each head (Qwen3, Gemma 3)
  bool joint_qk_norm = false;    ///< as in EncoderLayerOptions, as is the next
  bool nested_norm = false;
  bool output_norms = false;  ///< norms on each block's output, before the residual connection (Gemma)
  bool layer_scale = false;   ///< factors on each block's output, as in EncoderLayerOptions (DINOv2)
  bool gated = false;
  bool gate_second = false;  ///< as in FeedForwardOptions, as is the next
  bool linear1_bias = true;
  bool first_attention_norm = true;           ///< false: layer 0 has no norm before its attention (ModernBERT)
  bool shared_layers = false;                 ///< all layers share one set of weights (ALBERT)
  Precision precision = Precision::kFloat32;  ///< of the matrices and the word table
  bool int4_table = false;                    ///< the word table is kept in 4 bits (core/int4.h) instead
};

/// A batch of texts as concatenated tokens. T is the number of tokens of all texts.
struct TokenBatch {
  std::vector<int32_t> ids;          ///< (T)
  std::vector<int32_t> token_types;  ///< (T), or empty: all 0
  /// (T) rows of the position table, or empty: position_offset + 0, 1, 2, ... within each text.
  std::vector<int32_t> positions;
  Sequences sequences;
};

/// An image, and the positions of its patches. R and C are the numbers of rows and columns of patches, c is 1 if the
/// model has a class row, otherwise 0.
struct ImageInput {
  const float* pixels;   ///< (count, 3, height, width), normalized
  Index height, width;   ///< pixels beyond a multiple of the patch's side are ignored
  Index count = 1;       ///< images, one sequence of rows each
  Value positions = {};  ///< kAbsolute: (c + R C, E), for other grids than that of the position table; empty: the table
};

/// Relative positions of the tokens of a pass, for the attention of all layers.
struct PassPositions {
  Value bias;                       ///< kRelative, kAlibi: as in AttentionOptions
  DisentangledPositions distances;  ///< kDisentangled: their embeddings, unless each layer keeps their projections
  const Rotary* rotary = nullptr;   ///< of images: the angles of all rows
};

/// Embeddings (Devlin et al. 2018, arXiv:1810.04805) of tokens, or of an image's patches (Dosovitskiy et al. 2021,
/// arXiv:2010.11929), and a stack of encoder layers. The caller runs the layers one at a
/// time, so that it can cancel, report progress or read hidden states in between:
///
///   x = model.embed(e, batch);
///   const PassPositions positions = model.positions(e, batch.sequences);
///   for (i < numLayers()) x = model.runLayer(e, i, x, batch.sequences, positions);
///   x = model.applyFinalNorm(e, x);
///
/// Parameters: embeddings.word.weight (V, D), embeddings.position.weight (P, D), embeddings.token_type.weight,
/// embeddings.norm.{weight,bias}, embeddings.projection.{weight,bias} of factored tables; of images, embeddings.* as in
/// models/patch_embeddings.h;
/// relative_attention_bias.weight (buckets, H), relative_embeddings.weight (2 buckets, E), relative_norm.*,
/// convolution.*,
/// layers.<i>.* as in Encoder (only layers.0 if layers are shared), norm.*.
class EncoderModel : public Module {
 public:
  /// Throws kInvalidArgument for an inconsistent config and kOutOfMemory for one that needs more than 4 GB.
  explicit EncoderModel(const EncoderModelConfig& given);
  ~EncoderModel() override;

  /// Memory for hidden (T, E). Throws kOutOfMemory.
  std::vector<float> hiddenStates(const Sequences& sequences) const;
  /// The embeddings (T, E). Throws kInvalidArgument for ids outside the vocabulary and for texts with more tokens than
  /// the model has positions.
  Value embed(Evaluator& e, const TokenBatch& batch);
  /// The same for N images: (N L, E), where L = imageRows().
  Value embed(Evaluator& e, const ImageInput& image) const;
  /// The number of rows of an image of that size: class row, registers and patches. Throws kShapeMismatch for images
  /// without a patch, kUnsupported for models of texts.
  Index imageRows(Index height, Index width) const;
  PassPositions positions(Evaluator& e, const Sequences& sequences) const;
  /// Runs layer i on x (T, E), which is consumed. `head_mask` (1, H) or empty; `weights` null or as in AttentionOutput;
  /// `masks` as in AttentionOptions.
  Value runLayer(Evaluator& e, Index i, const Value& x, const Sequences& sequences, const PassPositions& positions,
                 const Value& head_mask = {}, float* weights = nullptr, std::span<const MaskTensor> masks = {});
  /// Applies the final norm, if the model has one. Consumes x.
  Value applyFinalNorm(Evaluator& e, const Value& x) const;
  /// x (rows, D) W_word^T (rows, V): the tied output layer of masked language models, without its bias.
  Value wordLogits(Evaluator& e, const Value& x) const;

  Index numLayers() const { return config_.num_layers; }
  /// The width of all heads of the queries.
  Index queryWidth() const { return config_.num_heads * config_.head_dim; }
  const EncoderModelConfig& config() const { return config_; }  ///< with defaults filled in

 private:
  friend class train::TrainableEncoder;
  class Embeddings;
  class PatchEmbeddings;
  class Convolution;
  struct PositionTables;
  struct ProjectedPositions;
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;
  /// Layer i, and whether its attention is limited to a window.
  EncoderLayer& layer(Index i) const { return *layers_[config_.shared_layers ? 0 : static_cast<size_t>(i)]; }
  bool isLocal(Index i) const {
    return config_.window >= 0 && !config_.local_layers.empty() && config_.local_layers[static_cast<size_t>(i)];
  }
  /// Relative positions: the table's row for each distance from -most to most, ascending.
  std::span<const Index> distanceRows(Index most) const;
  /// kDisentangled: the embeddings of the distances between `length` tokens.
  DisentangledPositions distances(Evaluator& e, Index length) const;
  /// PK and PQ of layer i for them, which are kept until a parameter is written.
  std::shared_ptr<const ProjectedPositions> projectedPositions(Evaluator& e, Index i, Index length);
  /// The rotation of layer i; null if there is none.
  const Rotary* rotary(Index i) const;

  EncoderModelConfig config_;
  std::unique_ptr<Embeddings> embeddings_;    // of tokens; null for images
  std::unique_ptr<PatchEmbeddings> patches_;  // of images; null for tokens
  std::unique_ptr<PositionTables> positions_;
  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  std::unique_ptr<Convolution> convolution_;
  std::optional<LayerNorm> norm_;
  Dropout position_dropout_;  // kDisentangled: of the embeddings of distances, in each layer anew
};

}  // namespace heed
