#pragma once

#include <memory>
#include <optional>

#include "core/int4.h"
#include "heed/encoder_model.h"
#include "heed/linear.h"
#include "layers/residual_block.h"

namespace heed {

/// LN(scale word[id] + token_type[type] + position[p]), then, for factored tables, a projection to width E.
///
/// Notation: T tokens of all texts together, V vocabulary, D width of the tables, E width of the model, P positions.
/// Parameters word.weight (V, D), position.weight (P, D), token_type.weight (types, D), norm.*, projection.* (E, D).
class EncoderModel::Embeddings : public Module {
 public:
  explicit Embeddings(const EncoderModelConfig& config);

  /// hidden (T, E).
  void forward(const TokenBatch& batch, MatrixView hidden, Context& context) const;
  /// output (rows, V) = x (rows, D) W^T: the word table as an output layer.
  void wordLogits(ConstMatrixView x, MatrixView output, Context& context) const;
  /// x (T, D): the sum of each token's rows, before the norm.
  void lookUp(const TokenBatch& batch, MatrixView x) const;
  /// The row of the position table of token t of text n.
  Index positionRow(const TokenBatch& batch, Index n, Index t) const {
    return batch.positions.empty() ? config_.position_offset + (t - batch.sequences.begin(n))
                                   : batch.positions[static_cast<size_t>(t)];
  }
  /// The word table; null if it has 4 bits.
  const Linear* word() const { return word_ ? &*word_ : nullptr; }
  /// Null if there is none.
  const float* position() const { return position_.empty() ? nullptr : position_.data(); }
  const float* tokenType() const { return token_type_.empty() ? nullptr : token_type_.data(); }
  const LayerNorm* norm() const { return norm_ ? &*norm_ : nullptr; }
  const Linear* projection() const { return projection_ ? &*projection_ : nullptr; }
  Index width() const { return width_; }

 private:
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;
  void check(const TokenBatch& batch) const;

  const EncoderModelConfig config_;
  Index width_;                      // D
  std::optional<Linear> word_;       // packed like other weights, so that it can be int8 and serve as the output layer
  std::unique_ptr<Int4Table> int4_;  // in its place if the table has 4 bits
  std::vector<float> position_;      // (P, D), or empty
  std::vector<float> token_type_;    // (types, D), or empty
  std::optional<LayerNorm> norm_;
  std::optional<Linear> projection_;  // D -> E
};

}  // namespace heed
