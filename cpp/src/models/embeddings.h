#pragma once

#include <optional>

#include "heed/encoder_model.h"

namespace heed {

/// LN(word[id] + token_type[type] + position[p]), then the projection to E where the tables are narrower.
/// Letters: T tokens of all texts together, V vocabulary, D width of the tables, E width of the model.
struct EncoderModel::Embeddings {
  explicit Embeddings(const EncoderModelConfig& config);

  void forward(const TokenBatch& batch, const EncoderModelConfig& config, MatrixView hidden, Arena& arena) const;
  void collect(std::vector<Parameter>& out);

  Index width;                  // D
  Linear word;                  // (V, D): packed like any weight, so that it may be int8 and may serve as output layer
  std::vector<float> position;  // (P, D), or empty
  std::vector<float> token_type;  // (types, D), or empty
  std::optional<LayerNorm> norm;
  std::optional<Linear> projection;  // D -> E
};

}  // namespace heed
