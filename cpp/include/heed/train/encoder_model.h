#pragma once

#include <string>
#include <vector>

#include "heed/encoder_model.h"
#include "heed/train/layers.h"
#include "heed/train/lora.h"

/// Training of pretrained encoders. Notation: T tokens of all texts, N texts, E width of the model, H heads.
namespace heed::train {

/// Dropout rates by place, as the published models have them.
struct EncoderDropout {
  float embedding = 0;         ///< of the embeddings, after their norm
  float attention = 0;         ///< of the attention weights
  float attention_output = 0;  ///< of the attention's output, before the residual connection
  float hidden = 0;            ///< of the feed-forward's hidden features
  float output = 0;            ///< of the feed-forward's output, before the residual connection; of the convolution's
  float position = 0;          ///< of the embeddings of distances (kDisentangled), in each layer anew
};

/// Rows [first_row, first_row + rows) of a parameter under a name of their own.
struct NamedRows {
  std::string name;
  size_t parameter;
  Index first_row, rows;
};

/// How a forward pass runs.
struct EncoderPass {
  bool training = false;   ///< whether dropout draws
  bool recompute = false;  ///< keep the input of each layer only, and run its forward pass again in the backward pass
  const Lora* lora = nullptr;  ///< low-rank updates of the model's linear layers, or null
};

/// What the positions of a pass's tokens give to the attention of all its layers.
struct PassPositions {
  Variable bias;        ///< kRelative, kAlibi: the bias of the scores, (H, 2 max_distance + 1)
  Variable embeddings;  ///< kDisentangled: those of the distances that occur, (C, E)
  std::shared_ptr<const std::vector<Index>> rows;  ///< which of them belongs to each distance, see RelativePositions
};

/// An EncoderModel whose forward passes can be differentiated. Without dropout they compute what the model computes,
/// bit for bit. Its parameters are those of the model under other names and in other parts: those of a checkpoint,
/// which may have the query's, key's and value's projections apart.
class TrainableEncoder final : public Module {
 public:
  /// `model` must outlive this object. Throws kUnsupported for configurations that cannot be trained.
  TrainableEncoder(EncoderModel& model, const std::vector<NamedRows>& names, const EncoderDropout& dropout);

  /// The rows after the last layer and the final norm (T, E). Throws as EncoderModel::embed().
  Variable forward(Graph& graph, const TokenBatch& batch, const EncoderPass& pass);
  /// x (rows, D) W_word^T, as EncoderModel::wordLogits(). The word table's gradient is then dense.
  Variable wordLogits(Graph& graph, const Variable& x) const;

  /// The parts of forward(), for callers that run one layer at a time.
  Variable embed(Graph& graph, const TokenBatch& batch);
  /// `head_mask` may be empty; `weights` null or as in AttentionOutput.
  Variable layer(Graph& graph, Index i, const Variable& x, const Sequences& sequences, const PassPositions& positions,
                 const Variable& head_mask = {}, float* weights = nullptr);
  Variable finalNorm(Graph& graph, const Variable& x) const;
  /// For texts that embed() has accepted.
  PassPositions positions(Graph& graph, const Sequences& sequences) const;

  EncoderModel& model() const { return model_; }
  /// All dropouts: that of the embeddings, then those of each layer; one that layers share, once for each.
  std::vector<Dropout*> dropouts();
  /// Layer i's, in the order of their calls.
  std::vector<Dropout*> dropouts(Index i);

 private:
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override { return parameters_; }
  void seedOwn(uint64_t seed) override;
  /// layer(), of which only the input is kept.
  Variable recomputedLayer(Graph& graph, Index i, const Variable& x, const Sequences& sequences,
                           const PassPositions& positions);
  /// The first layer's output y with the convolution of its input x.
  Variable convolved(Graph& graph, const Variable& x, const Variable& y, const Sequences& sequences);
  Variable relativeBias(Graph& graph) const;
  PassPositions distanceEmbeddings(Graph& graph, Index longest) const;
  void addParameter(const NamedRows& rows, const Parameter& whole);
  bool trainsLayer(const Graph& graph, Index i) const;

  EncoderModel& model_;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<RowSlice>> slices_;  // of the parts of the model's parameters that are divided
  Dropout embedding_dropout_, position_dropout_, convolution_dropout_;
};

}  // namespace heed::train
