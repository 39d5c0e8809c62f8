#pragma once

#include "heed/train/ops.h"
#include "heed/transformer.h"

/// Forward passes of the layers that record a graph. They call the modules' own dropout, so that a module in training
/// mode draws anew on each call, as in inference.
/// Notation as in the layers' own headers.
namespace heed::train {

/// A lookup table (torch.nn.Embedding): row ids[t] for each t. Parameter: weight (num_embeddings, embed_dim), initially
/// normal. Its gradient has only the rows that were looked up.
class Embedding final : public Module {
 public:
  Embedding(Index num_embeddings, Index embed_dim);
  /// output (T, E). Throws kInvalidArgument for ids outside [0, num_embeddings).
  void forward(std::span<const int32_t> ids, MatrixView output) const;
  Variable forward(Graph& graph, std::vector<int32_t> ids) const;
  Index numEmbeddings() const { return num_embeddings_; }
  Index embedDim() const { return embed_dim_; }

 private:
  std::vector<Parameter> ownParameters() override;

  Index num_embeddings_, embed_dim_;
  std::vector<float> weight_;
};

Variable dropout(Graph& graph, Dropout& layer, const Variable& x, Index first_column = 0);
Variable feedForward(Graph& graph, FeedForward& layer, const Variable& x);

/// Options of one call of a layer with attention. Layers set the dropout themselves; the head mask of an Encoder is
/// (layers, most heads).
struct LayerSettings : AttentionSettings {
  std::shared_ptr<const Rotary> rotary;  ///< null, or rotates the projected queries and keys
  /// Empty, or embeddings of distances (C, E), whose projections are the keys and queries of `positions`.
  Variable distance_embeddings;
};

/// query (sum L_n, E), key, value; weights null or as in AttentionOutput.
Variable multiHeadAttention(Graph& graph, MultiHeadAttention& layer, const Variable& query, const Variable& key,
                            const Variable& value, const Sequences& queries, const Sequences& keys,
                            const LayerSettings& settings, float* weights = nullptr);
Variable encoderLayer(Graph& graph, EncoderLayer& layer, const Variable& x, const Sequences& sequences,
                      const LayerSettings& settings, float* weights = nullptr);
/// `weights` is empty or has one pointer per layer.
Variable encoder(Graph& graph, Encoder& layers, const Variable& x, const Sequences& sequences,
                 const LayerSettings& settings, std::span<float* const> weights = {});

/// Options of a decoder call: for the self-attention and the cross-attention.
struct DecoderSettings {
  LayerSettings self, memory;
};
Variable decoderLayer(Graph& graph, DecoderLayer& layer, const Variable& target, const Variable& memory,
                      const Sequences& targets, const Sequences& memories, const DecoderSettings& settings,
                      DecoderWeights weights = {});
Variable decoder(Graph& graph, Decoder& layers, const Variable& target, const Variable& memory,
                 const Sequences& targets, const Sequences& memories, const DecoderSettings& settings,
                 std::span<const DecoderWeights> weights = {});
struct TransformerOutput {
  Variable output, memory;
};
TransformerOutput transformer(Graph& graph, Transformer& model, const Variable& source, const Variable& target,
                              const Sequences& sources, const Sequences& targets, const LayerSettings& source_settings,
                              const DecoderSettings& target_settings, std::span<float* const> encoder_weights = {},
                              std::span<const DecoderWeights> decoder_weights = {});

}  // namespace heed::train
