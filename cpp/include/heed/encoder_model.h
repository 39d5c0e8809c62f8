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

class TaskAdapters;

/// How an encoder represents positions.
enum class Positions {
  kAbsolute,      ///< learned embeddings, added to the token embeddings (BERT)
  kRelative,      ///< a bucketed score bias (T5); with position_embeddings, also learned absolute embeddings (MPNet)
  kRotary,        ///< queries and keys rotated in each layer (ModernBERT, NomicBERT)
  kAlibi,         ///< a penalty on the scores that grows with the distance (JinaBERT)
  kDisentangled,  ///< products of queries and keys with projected distance embeddings (DeBERTa v2 and v3)
};

/// Options that describe the published encoder architectures. The TypeScript API fills them in from config.json.
struct EncoderModelConfig {
  /// Options of every layer. Those of norms and the precision also apply to the embeddings and the final norm. key_dim
  /// is the width of queries, keys and values; value_dim, attention_norm and dropout are ignored.
  EncoderLayerOptions layer{
      .embed_dim = 0, .dropout = 0, .attention{}, .feed_forward{.activation = Activation::kGelu}, .norm{.eps = 1e-12f}};
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
  Index task_vocab_size = 0;  ///< rows of the task type table (ERNIE), whose row 0 is added to every token; 0: no table
  Positions positions = Positions::kAbsolute;
  Index relative_buckets = 0;        ///< kRelative: number of buckets. kDisentangled: rows per side of the
                                     ///< table of distance embeddings; 0: no relative positions
  Index relative_distance = 128;     ///< distances from this one on share the last bucket. 0
                                     ///< (kDisentangled): every distance has its own row
  bool relative_per_layer = false;   ///< kRelative: every layer has its own biases (UMT5); false: all share one table
  bool relative_norm = false;        ///< kDisentangled: layer norm of the distance embeddings
  bool position_embeddings = false;  ///< kRelative and kDisentangled: also add learned absolute embeddings to the
                                     ///< token embeddings
  /// Width of a convolution over the embeddings, whose result is added to the first layer's output (DeBERTa v2 XLarge);
  /// odd, or 0 for none. See models/convolution_layer.h.
  Index convolution = 0;
  Activation convolution_activation = Activation::kTanh;
  Index rotary_dim = 0;              ///< kRotary: the number of rotated features per head
  double rotary_base = 10000;        ///< kRotary: base of the angles in layers with global attention
  double local_rotary_base = 10000;  ///< kRotary: base of the angles in layers with a window
  double rotary_scale = 1;           ///< kRotary: factor on all angles
  /// kRotary: (D / 2) angles per position in layers with global attention; empty: computed from rotary_dim, rotary_base
  /// and rotary_scale.
  std::vector<double> rotary_frequencies;
  /// kRotary: (D / 2) angles per position in layers with a window; empty: computed from rotary_dim, local_rotary_base
  /// and rotary_scale.
  std::vector<double> local_rotary_frequencies;
  double rotary_factor = 1;         ///< kRotary: factor on cosines and sines in layers with global attention
  double local_rotary_factor = 1;   ///< kRotary: factor on cosines and sines in layers with a window
  bool rotary_interleaved = false;  ///< kRotary: rotates the features (2k, 2k + 1), see Rotary::Pairing (RoFormer)
  bool rotary_values = false;       ///< kRotary: rotates the values, too
  Index window = -1;                ///< |i - j| <= window in local layers; -1: none
  std::vector<bool> local_layers;   ///< (num_layers) whether each layer is local; empty: none is
  Index local_head_dim = 0;         ///< width of a head in local layers; 0: as in global layers
  Index local_key_value_heads = 0;  ///< heads of keys and values in local layers; 0: as in global layers
  /// Width of the signals that gate a third block of each layer, see models/layer_inputs.h; 0: no such blocks.
  Index layer_input_dim = 0;
  bool causal = false;
  float attention_scale = 0;  ///< factor on the scores; 0: 1 / sqrt(width of a head)
  float embedding_scale = 1;  ///< factor on the token embeddings
  bool embedding_norm = true;
  bool projection_first = false;  ///< factored tables are projected, without a bias, before the norm (DeBERTa)
  bool final_norm = false;
  Index output_dim = 0;              ///< O, the width of a projection after the final norm, without bias; 0: none
  bool first_attention_norm = true;  ///< false: layer 0 has no norm before its attention (ModernBERT)
  bool shared_layers = false;        ///< all layers share one set of weights (ALBERT)
  Index adapter_tasks = 0;  ///< number of tasks with adapters, see models/task_adapters.h (Jina v3); 0: no adapters
  Index adapter_rank = 1;
  float adapter_scale = 1;              ///< factor on what adapters add
  RowCode table_code = RowCode::kNone;  ///< store the token embeddings in this format instead
};

/// A batch of texts as concatenated tokens. T is the number of tokens of all texts.
struct TokenBatch {
  std::vector<int32_t> ids;          ///< (T)
  std::vector<int32_t> token_types;  ///< (T), or empty: all 0
  /// (T) rows of the position table, or empty: position_offset + 0, 1, 2, ... within each text.
  std::vector<int32_t> positions;
  Sequences sequences;
  Index task = -1;  ///< the task whose adapters are added; -1: none
};

/// Images of one size, and the positions of their patches. R and C are the numbers of rows and columns of patches; c is
/// 1 if the model has a class token, otherwise 0.
struct ImageInput {
  const float* pixels;   ///< (count, 3, height, width), normalized
  Index height, width;   ///< in pixels; those beyond a multiple of the patch size are ignored
  Index count = 1;       ///< number of images; each becomes one sequence
  Value positions = {};  ///< kAbsolute: (c + R C, E), replaces the position table if its grid differs; empty: the table
};

/// Inputs that all layers of one pass share: relative positions and embeddings.
struct PassInputs {
  Value bias;                       ///< kRelative, kAlibi: as in AttentionOptions; empty if layers have their own
  DisentangledPositions distances;  ///< kDisentangled: distance embeddings; empty if layers cache their projections
  const Rotary* rotary = nullptr;   ///< image encoders: the angles of all rows
  Value embeddings;                 ///< (T, E): the input of the first layer; empty without layer_input_dim
};

/// Embeddings of tokens (Devlin et al. 2018, arXiv:1810.04805) or of an image's patches (Dosovitskiy et al. 2021,
/// arXiv:2010.11929), followed by a stack of encoder layers. The caller runs the layers one at a time, so that it can
/// cancel, report progress or read hidden states in between:
///
///   x = model.embed(e, batch);
///   const PassInputs inputs = model.inputs(e, batch.sequences, x);
///   for (i < numLayers()) x = model.runLayer(e, i, x, batch.sequences, inputs);
///   x = model.applyFinalNorm(e, x);
///
/// Parameters: embeddings.word.weight (V, D), embeddings.position.weight (P, D), embeddings.token_type.weight,
/// embeddings.task_type.weight, embeddings.norm.{weight,bias}, embeddings.projection.{weight,bias} (factored tables);
/// for image encoders, embeddings.* as in models/patch_embeddings.h; relative_attention_bias.weight (buckets, H), or
/// (layers * buckets, H) if every layer has its own; relative_embeddings.weight (2 buckets, E), relative_norm.*,
/// convolution.*; layers.<i>.* as in Encoder (only layers.0 if layers are shared), norm.*; layer_inputs.* and
/// layers.<i>.input.* (models/layer_inputs.h); output_projection.weight (O, E); adapters as in models/task_adapters.h.
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
  /// `embeddings` (T, E): the input of the first layer. They are copied if the layers read them.
  PassInputs inputs(Evaluator& e, const Sequences& sequences, const Value& embeddings) const;
  /// Runs layer i on x (T, E), which is consumed. `head_mask` (1, H) or empty; `weights` null or as in AttentionOutput;
  /// `masks` as in AttentionOptions; `task` as in TokenBatch.
  Value runLayer(Evaluator& e, Index i, const Value& x, const Sequences& sequences, const PassInputs& inputs,
                 const Value& head_mask = {}, float* weights = nullptr, std::span<const MaskTensor> masks = {},
                 Index task = -1);
  /// Applies the final norm and the projection after it, if the model has them: (T, outputWidth()). Consumes x.
  Value applyFinalNorm(Evaluator& e, const Value& x) const;
  /// x W_word^T (rows, V) for x (rows, D): the tied output layer of masked language models, without its bias.
  Value wordLogits(Evaluator& e, const Value& x) const;

  /// The linear layers, in the order of their calls.
  std::vector<Linear*> linears() const;
  Index numLayers() const { return config_.num_layers; }
  /// The width of the model's output: O, or E without a projection.
  Index outputWidth() const { return config_.output_dim > 0 ? config_.output_dim : config_.layer.embed_dim; }
  /// The width of the queries of all heads, H Dk.
  Index queryWidth() const { return config_.layer.attention.num_heads * config_.layer.attention.key_dim; }
  const EncoderModelConfig& config() const { return config_; }  ///< with defaults filled in

 private:
  friend class train::TrainableEncoder;
  class Embeddings;
  class PatchEmbeddings;
  class Convolution;
  class LayerInputs;
  struct PositionTables;
  struct ProjectedPositions;
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;
  EncoderLayer& layer(Index i) const { return *layers_[config_.shared_layers ? 0 : static_cast<size_t>(i)]; }
  /// Whether the attention of layer i is limited to a window.
  bool isLocal(Index i) const {
    return config_.window >= 0 && !config_.local_layers.empty() && config_.local_layers[static_cast<size_t>(i)];
  }
  /// Whether every layer has its own biases of distances, so that inputs() has none.
  bool hasLayerBias() const { return config_.positions == Positions::kRelative && config_.relative_per_layer; }
  /// Relative positions: the table row of each distance from -most to most, ascending.
  std::span<const Index> distanceRows(Index most) const;
  /// kRelative: the biases of layer i for the distances between `length` tokens, (H, distances).
  Value relativeBias(Evaluator& e, Index i, Index length) const;
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
  std::unique_ptr<LayerInputs> layer_inputs_;
  std::optional<LayerNorm> norm_;
  std::unique_ptr<Linear> output_projection_;
  std::unique_ptr<TaskAdapters> adapters_;  // null: none
  Dropout position_dropout_;                // kDisentangled: on the distance embeddings, with a new mask in each layer
};

}  // namespace heed
