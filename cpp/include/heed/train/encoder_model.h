#pragma once

#include <string>
#include <vector>

#include "heed/encoder_model.h"
#include "heed/train/lora.h"
#include "heed/train/recording_evaluator.h"

/// Training of pretrained encoders. Notation: T tokens of all texts, N texts, E width of the model, H heads.
namespace heed::train {

/// Dropout rates, one for each point at which the published models apply dropout.
struct EncoderDropout {
  float embedding = 0;         ///< on the embeddings, after their norm
  float attention = 0;         ///< on the attention weights
  float attention_output = 0;  ///< on the attention's output, before the residual connection
  float hidden = 0;            ///< on the feed-forward's hidden layer
  float output = 0;            ///< on the outputs of the feed-forward (before the residual connection) and convolution
  float position = 0;          ///< kDisentangled: on the distance embeddings, with a new mask in each layer
};

/// A name for rows [first_row, first_row + rows) of a parameter of the model.
struct NamedRows {
  std::string name;
  size_t parameter;  ///< index in EncoderModel::parameters()
  Index first_row, rows;
};

/// Options of a forward pass.
struct EncoderPass {
  bool training = false;   ///< whether dropout is active
  bool recompute = false;  ///< gradient checkpointing: store only each layer's input, and repeat its forward pass in
                           ///< the backward pass
};

/// An EncoderModel whose forward passes can be differentiated. Without dropout, results equal the model's bit for bit.
/// Its parameters are the model's, named and divided as in a checkpoint, which may store the projections of queries,
/// keys and values separately.
class TrainableEncoder final : public Module {
 public:
  /// `model` must outlive this object. Throws kUnsupported for models that cannot be trained.
  TrainableEncoder(EncoderModel& model, const std::vector<NamedRows>& names, const EncoderDropout& dropout);
  ~TrainableEncoder() override;

  /// The output of the last layer and the final norm (T, E). `sites` may be null; layers whose sites are read or edited
  /// are not recomputed. Throws the errors of EncoderModel::embed().
  Variable forward(Graph& graph, const TokenBatch& batch, const EncoderPass& pass, RecordedSites* sites = nullptr);
  /// As EncoderModel::wordLogits(): x W_word^T for x (rows, D). Makes the gradient of the token embeddings dense.
  Variable wordLogits(Graph& graph, const Variable& x) const;

  EncoderModel& model() const { return model_; }
  /// Sets the LoRA adapters of the model's linear layers; null: none.
  void setLora(Lora* lora) { lora_ = lora; }
  /// All dropouts: first that of the embeddings, then those of each layer. Dropouts that layers share are listed once
  /// per layer.
  std::vector<Dropout*> dropouts() override;

 private:
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override { return parameters_; }
  void seedOwn(uint64_t seed) override;
  /// EncoderModel::runLayer() that stores only the layer's input for the backward pass.
  Value recomputedLayer(RecordingEvaluator& e, Index i, const Value& x, const Sequences& sequences,
                        const PassInputs& inputs);
  /// The dropouts of layer i, in the order of their calls.
  std::vector<Dropout*> layerDropouts(Index i);
  void addParameter(const NamedRows& rows, const Parameter& whole);
  bool trainsLayer(const Graph& graph, Index i) const;

  EncoderModel& model_;
  Lora* lora_ = nullptr;
  std::vector<Parameter> parameters_;
};

}  // namespace heed::train
