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
  kAbsolute,      ///< learned embeddings, added to the token embeddings (BERT)
  kRelative,      ///< MPNet: learned absolute embeddings and one bucketed score bias shared by all layers
  kRotary,        ///< queries and keys rotated in each layer (ModernBERT, NomicBERT)
  kAlibi,         ///< a penalty on the scores that grows with the distance (JinaBERT)
  kDisentangled,  ///< products of queries and keys with projected distance embeddings (DeBERTa v2 and v3)
};

/// Options that describe the published encoder architectures. The TypeScript API fills them in from config.json.
struct EncoderModelConfig {
  /// Options of every layer. Those of norms and the precision also apply to the embeddings and the final norm. key_dim
  /// is the width of queries, keys and values; value_dim, attention_norm and dropout are ignored.
  EncoderLayerOptions layer{.embed_dim = 0,
                            .num_heads = 0,
                            .feed_forward_dim = 0,
                            .activation = Activation::kGelu,
                            .eps = 1e-12f,
                            .dropout = 0};
  Index vocab_size;         ///< V; 0 for images
  Index embedding_dim = 0;  ///< D, the width of factored embedding tables (ELECTRA, ALBERT), which are projected to E;
                            ///< 0: tables of width E, no projection
  Index num_layers;
  Index max_positions;  ///< P, the rows of the position table; the longest text has P - position_offset tokens
  /// Image encoders: side of a patch in pixels, see models/patch_embeddings.h; 0: a text encoder. Image encoders use
  /// kAbsolute positions, or kRotary with angles that the caller passes with each call.
  Index patch_size = 0;
  bool class_row = false;     ///< image encoders: a learned class token before the patch tokens
  Index registers = 0;        ///< image encoders: number of learned register tokens, after the class token
  Index position_offset = 0;  ///< position of the first token: 0, or padding_idx + 1 (RoBERTa, MPNet)
  Index type_vocab_size = 0;  ///< rows of the token type table; 0: no table
  Positions positions = Positions::kAbsolute;
  Index relative_buckets = 0;        ///< kRelative: number of buckets. kDisentangled: buckets per side
  Index relative_distance = 128;     ///< distances from this one on share the last bucket. If it equals
                                     ///< relative_buckets (kDisentangled), every distance has its own bucket
  bool relative_norm = false;        ///< kDisentangled: layer norm of the distance embeddings
  bool position_embeddings = false;  ///< kDisentangled: also add learned absolute embeddings to the token embeddings
  /// Width of a convolution over the embeddings, whose result is added to the first layer's output (DeBERTa v2 XLarge);
  /// odd, or 0 for none. See models/convolution_layer.h.
  Index convolution = 0;
  Activation convolution_activation = Activation::kTanh;
  Index rotary_dim = 0;              ///< kRotary: the number of rotated features per head
  double rotary_base = 10000;        ///< kRotary: base of the angles in layers with global attention
  double local_rotary_base = 10000;  ///< kRotary: base of the angles in layers with a window
  double rotary_scale = 1;           ///< kRotary: factor on all angles
  Index window = -1;                 ///< |i - j| <= window in local layers; -1: none
  std::vector<bool> local_layers;    ///< (num_layers) whether each layer is local; empty: none is
  bool causal = false;
  float attention_scale = 0;  ///< factor on the scores; 0: 1 / sqrt(width of a head)
  float embedding_scale = 1;  ///< factor on the token embeddings
  bool embedding_norm = true;
  bool final_norm = false;
  bool first_attention_norm = true;     ///< false: layer 0 has no norm before its attention (ModernBERT)
  bool shared_layers = false;           ///< all layers share one set of weights (ALBERT)
  RowCode table_code = RowCode::kNone;  ///< store the token embeddings in this format instead
};

/// A batch of texts as concatenated tokens. T is the number of tokens of all texts.
struct TokenBatch {
  std::vector<int32_t> ids;          ///< (T)
  std::vector<int32_t> token_types;  ///< (T), or empty: all 0
  /// (T) rows of the position table, or empty: position_offset + 0, 1, 2, ... within each text.
  std::vector<int32_t> positions;
  Sequences sequences;
};

/// Images of one size, and the positions of their patches. R and C are the numbers of rows and columns of patches; c is
/// 1 if the model has a class token, otherwise 0.
struct ImageInput {
  const float* pixels;   ///< (count, 3, height, width), normalized
  Index height, width;   ///< in pixels; those beyond a multiple of the patch size are ignored
  Index count = 1;       ///< number of images; each becomes one sequence
  Value positions = {};  ///< kAbsolute: (c + R C, E), replaces the position table if its grid differs; empty: the table
};

/// The relative positions of one pass, which the attention of every layer reads.
struct PassPositions {
  Value bias;                       ///< kRelative, kAlibi: as in AttentionOptions
  DisentangledPositions distances;  ///< kDisentangled: distance embeddings; empty if layers cache their projections
  const Rotary* rotary = nullptr;   ///< image encoders: the angles of all rows
};

/// Embeddings of tokens (Devlin et al. 2018, arXiv:1810.04805) or of an image's patches (Dosovitskiy et al. 2021,
/// arXiv:2010.11929), followed by a stack of encoder layers. The caller runs the layers one at a time, so that it can
/// cancel, report progress or read hidden states in between:
///
///   x = model.embed(e, batch);
///   const PassPositions positions = model.positions(e, batch.sequences);
///   for (i < numLayers()) x = model.runLayer(e, i, x, batch.sequences, positions);
///   x = model.applyFinalNorm(e, x);
///
/// Parameters: embeddings.word.weight (V, D), embeddings.position.weight (P, D), embeddings.token_type.weight,
/// embeddings.norm.{weight,bias}, embeddings.projection.{weight,bias} (factored tables); for image encoders,
/// embeddings.* as in models/patch_embeddings.h; relative_attention_bias.weight (buckets, H),
/// relative_embeddings.weight (2 buckets, E), relative_norm.*, convolution.*; layers.<i>.* as in Encoder (only layers.0
/// if layers are shared), norm.*.
class EncoderModel : public Module {
 public:
  /// Throws kInvalidArgument for an inconsistent config and kOutOfMemory for one that needs more than 4 GB.
  explicit EncoderModel(const EncoderModelConfig& given);
  ~EncoderModel() override;

  /// Zeroed memory for hidden states (T, E). Throws kOutOfMemory.
  std::vector<float> hiddenStates(const Sequences& sequences) const;
  /// The embeddings (T, E). Throws kInvalidArgument for ids outside the vocabulary and for texts with more tokens than
  /// the model has positions.
  Value embed(Evaluator& e, const TokenBatch& batch);
  /// The embeddings of N images, (N L, E) with L = imageRows().
  Value embed(Evaluator& e, const ImageInput& image) const;
  /// The number of rows of an image of that size: class token, register tokens and patch tokens. Throws
  /// kInvalidArgument for images smaller than a patch, kUnsupported for text encoders.
  Index imageRows(Index height, Index width) const;
  PassPositions positions(Evaluator& e, const Sequences& sequences) const;
  /// Runs layer i on x (T, E), which is consumed. `head_mask` (1, H) or empty; `weights` null or as in AttentionOutput;
  /// `masks` as in AttentionOptions.
  Value runLayer(Evaluator& e, Index i, const Value& x, const Sequences& sequences, const PassPositions& positions,
                 const Value& head_mask = {}, float* weights = nullptr, std::span<const MaskTensor> masks = {});
  /// Applies the final norm, if the model has one. Consumes x.
  Value applyFinalNorm(Evaluator& e, const Value& x) const;
  /// x W_word^T (rows, V) for x (rows, D): the tied output layer of masked language models, without its bias.
  Value wordLogits(Evaluator& e, const Value& x) const;

  /// The linear layers, in the order of their calls.
  std::vector<Linear*> linears() const;
  Index numLayers() const { return config_.num_layers; }
  /// The width of the queries of all heads, H Dk.
  Index queryWidth() const { return config_.layer.num_heads * config_.layer.key_dim; }
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
  EncoderLayer& layer(Index i) const { return *layers_[config_.shared_layers ? 0 : static_cast<size_t>(i)]; }
  /// Whether the attention of layer i is limited to a window.
  bool isLocal(Index i) const {
    return config_.window >= 0 && !config_.local_layers.empty() && config_.local_layers[static_cast<size_t>(i)];
  }
  /// Relative positions: the table row of each distance from -most to most, ascending.
  std::span<const Index> distanceRows(Index most) const;
  /// kDisentangled: the embeddings of the distances between `length` tokens.
  DisentangledPositions distances(Evaluator& e, Index length) const;
  /// kDisentangled: PK and PQ of layer i for these distances, cached until a parameter that they depend on is written.
  std::shared_ptr<const ProjectedPositions> projectedPositions(Evaluator& e, Index i, Index length);
  /// The number of writes to the parameters that PK and PQ of layer i depend on.
  uint64_t positionWrites(Index i) const;
  /// The rotation of layer i for `length` positions; null if there is none. Image encoders have none of their own.
  std::shared_ptr<const Rotary> rotary(Index i, Index length) const;

  EncoderModelConfig config_;
  std::unique_ptr<Embeddings> embeddings_;    // null in image encoders
  std::unique_ptr<PatchEmbeddings> patches_;  // null in text encoders
  std::unique_ptr<PositionTables> positions_;
  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  std::unique_ptr<Convolution> convolution_;
  std::optional<LayerNorm> norm_;
  Dropout position_dropout_;  // kDisentangled: on the distance embeddings, with a new mask in each layer
};

}  // namespace heed
