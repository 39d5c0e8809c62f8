#pragma once

#include <string>
#include <vector>

#include "heed/encoder_model.h"
#include "heed/train/lora.h"
#include "heed/train/recording_evaluator.h"

/// Training of pretrained encoders. Notation: T tokens of all texts, N texts, E width of the model, H heads.
namespace heed::train {

/// Dropout rates at the places where the published models have dropout.
struct EncoderDropout {
  float embedding = 0;         ///< of the embeddings, after their norm
  float attention = 0;         ///< of the attention weights
  float attention_output = 0;  ///< of the attention's output, before the residual connection
  float hidden = 0;            ///< of the feed-forward's hidden features
  float output = 0;            ///< of the feed-forward's output, before the residual connection; of the convolution's
  float position = 0;          ///< of the embeddings of distances (kDisentangled), drawn anew in each layer
};

/// Rows [first_row, first_row + rows) of a parameter under a name of their own.
struct NamedRows {
  std::string name;
  size_t parameter;
  Index first_row, rows;
};

/// Options of a forward pass.
struct EncoderPass {
  bool training = false;   ///< whether dropout is active
  bool recompute = false;  ///< keep only each layer's input, and repeat the layer's forward pass in the backward pass
};

/// An EncoderModel whose forward passes can be differentiated. Without dropout they compute what the model computes,
/// bit for bit. Its parameters are those of the model, named and divided as in a checkpoint, which may store the
/// projections of queries, keys and values separately.
class TrainableEncoder final : public Module {
 public:
  /// `model` must outlive this object. Throws kUnsupported for configurations that cannot be trained.
  TrainableEncoder(EncoderModel& model, const std::vector<NamedRows>& names, const EncoderDropout& dropout);
  ~TrainableEncoder() override;

  /// The rows after the last layer and the final norm (T, E). `sites`: null for none; layers with sites are not
  /// recomputed. Throws what EncoderModel::embed() throws.
  Variable forward(Graph& graph, const TokenBatch& batch, const EncoderPass& pass, RecordedSites* sites = nullptr);
  /// x (rows, D) W_word^T, as EncoderModel::wordLogits(). The word table's gradient is then dense.
  Variable wordLogits(Graph& graph, const Variable& x) const;

  EncoderModel& model() const { return model_; }
  /// The linear layers of the model, in the order of their calls.
  std::vector<Linear*> linears() const;
  /// The low-rank updates of the model's linear layers, or null.
  void setLora(Lora* lora) { lora_ = lora; }
  /// All dropouts: that of the embeddings, then those of each layer; one that several layers share is listed once per
  /// layer.
  std::vector<Dropout*> dropouts() override;

 private:
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override { return parameters_; }
  void seedOwn(uint64_t seed) override;
  /// EncoderModel::runLayer(), keeping only its input.
  Value recomputedLayer(RecordingEvaluator& e, Index i, const Value& x, const Sequences& sequences,
                        const PassPositions& positions);
  /// The dropouts of layer i, in the order of their calls.
  std::vector<Dropout*> layerDropouts(Index i);
  void addParameter(const NamedRows& rows, const Parameter& whole);
  bool trainsLayer(const Graph& graph, Index i) const;

  EncoderModel& model_;
  Lora* lora_ = nullptr;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<RowSlice>> slices_;  // of the parts of the model's parameters that are divided
};

}  // namespace heed::train
