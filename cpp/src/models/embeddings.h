#pragma once

#include <memory>
#include <optional>

#include "core/coded_rows.h"
#include "heed/encoder_model.h"
#include "heed/linear.h"
#include "heed/norm.h"

namespace heed {

/// Dropout(LN(scale word[id] + token_type[type] + task_type[0] + position[p])), then, for factored tables, a projection
/// to width E; with projection_first, the projection is before the norm.
///
/// Notation: T tokens of all texts, V size of the vocabulary, D width of the tables, E width of the model, P positions.
/// Parameters word.weight (V, D), position.weight (P, D), token_type.weight (types, D), norm.*, projection.* (E, D).
class EncoderModel::Embeddings : public Module {
 public:
  explicit Embeddings(const EncoderModelConfig& config);

  /// (T, E). `adapters` of the batch's task are added to the tables. Throws kInvalidArgument for ids outside the tables
  /// and texts that are too long.
  Value forward(Evaluator& e, const TokenBatch& batch, const TaskAdapters* adapters = nullptr);
  /// x W^T (rows, V) for x (rows, D): the token embeddings as an output layer.
  Value wordLogits(Evaluator& e, const Value& x) const;
  /// The token embeddings; null if they are stored in 3 or 4 bits.
  const Linear* word() const { return word_ ? &*word_ : nullptr; }
  /// The token embeddings and the projection, if they exist as linear layers.
  std::vector<Linear*> linears() {
    std::vector<Linear*> all;
    if (word_) all.push_back(&*word_);
    if (projection_) all.push_back(&*projection_);
    return all;
  }
  /// The dropout after the norm.
  Dropout& dropout() { return dropout_; }

 private:
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;
  void check(const TokenBatch& batch) const;

  const EncoderModelConfig config_;
  Index width_;                        // D
  std::optional<Linear> word_;         // a Linear, so that it can be int8 and serve as the output layer
  std::unique_ptr<CodedTable> coded_;  // replaces word_ if the token embeddings are stored in 3 or 4 bits
  std::vector<float> position_;        // (P, D), or empty
  std::vector<float> token_type_;      // (types, D), or empty
  std::vector<float> task_type_;       // (tasks, D), or empty
  std::optional<LayerNorm> norm_;
  std::optional<Linear> projection_;  // D -> E
  Dropout dropout_;
};

}  // namespace heed
