#include "heed/embedding.h"

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

}  // namespace heed
