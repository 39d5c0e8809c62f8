#include "heed/embedding.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/check.h"

namespace heed {

Embedding::Embedding(Index num_embeddings, Index embed_dim) : num_embeddings_(num_embeddings), embed_dim_(embed_dim) {
  requireAtLeast("numEmbeddings", num_embeddings, 1);
  requireAtLeast("embedDim", embed_dim, 1);
  allocate("weight", {num_embeddings, embed_dim}, weight_);
}

Value Embedding::forward(Evaluator& e, std::span<const int32_t> ids) const {
  auto* rows = e.context().arena.take<Index>(static_cast<Index>(ids.size()));
  for (size_t t = 0; t < ids.size(); ++t) {
    rows[t] = ids[t];
    if (rows[t] < 0 || rows[t] >= num_embeddings_) {
      throwInvalid(ErrorCode::kInvalidArgument, "ids", "ids from 0 to " + std::to_string(num_embeddings_ - 1),
                   std::to_string(rows[t]) + " at position " + std::to_string(t));
    }
  }
  const TableRows table{.storage = nullptr, .plain = weight_.data(), .rows = {rows, ids.size()}, .sparse = true};
  return e.lookUp({&table, 1}, embed_dim_);
}

std::vector<Parameter> Embedding::ownParameters() {
  return {plainParameter("weight", {num_embeddings_, embed_dim_}, weight_.data(), ParameterKind::kWeight,
                         InitialValue::normal())};
}

FreeParameter::FreeParameter(Shape shape, InitialValue initial) : shape_(std::move(shape)), initial_(initial) {
  allocate("Parameter", shape_, values_);
}

Value FreeParameter::forward(Evaluator& e) const {
  const Index rows = shape_.rank() == 0 ? 1 : shape_[0];
  auto* indices = e.context().arena.take<Index>(rows);
  std::iota(indices, indices + rows, Index{0});
  const TableRows table{.storage = nullptr, .plain = values_.data(), .rows = {indices, static_cast<size_t>(rows)}};
  return e.lookUp({&table, 1}, static_cast<Index>(values_.size()) / std::max<Index>(rows, 1));
}

std::vector<Parameter> FreeParameter::ownParameters() {
  return {plainParameter("", shape_, values_.data(), ParameterKind::kWeight, initial_)};
}

}  // namespace heed
