#pragma once

#include <span>
#include <vector>

#include "heed/evaluator.h"
#include "heed/module.h"

namespace heed {

/// A lookup table (torch.nn.Embedding): row ids[t] for each t. Parameter: weight (num_embeddings, embed_dim),
/// initialized from a normal distribution; its gradient is sparse, with only the rows that were looked up.
class Embedding final : public Module {
 public:
  Embedding(Index num_embeddings, Index embed_dim);
  /// (T, E). Throws kInvalidArgument for ids outside [0, num_embeddings).
  Value forward(Evaluator& e, std::span<const int32_t> ids) const;
  Index numEmbeddings() const { return num_embeddings_; }
  Index embedDim() const { return embed_dim_; }

 private:
  std::vector<Parameter> ownParameters() override;

  Index num_embeddings_, embed_dim_;
  std::vector<float> weight_;
};

/// A parameter that belongs to no layer (torch.nn.Parameter). Its name is empty: that of the module is its own.
class FreeParameter final : public Module {
 public:
  FreeParameter(Shape shape, InitialValue initial);
  /// The value, one row of the parameter per row; vectors have one column.
  Value forward(Evaluator& e) const;
  const Shape& shape() const { return shape_; }

 private:
  std::vector<Parameter> ownParameters() override;

  Shape shape_;
  InitialValue initial_;
  std::vector<float> values_;
};

}  // namespace heed
