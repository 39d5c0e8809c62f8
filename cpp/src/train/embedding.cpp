/// y_t = w_{id_t}, the row of a table; dw_k = sum of dy_t over the t with id_t = k.
#include <algorithm>
#include <string>

#include "core/check.h"
#include "heed/train/layers.h"
#include "train/ops/accumulate.h"

namespace heed::train {

Embedding::Embedding(Index num_embeddings, Index embed_dim) : num_embeddings_(num_embeddings), embed_dim_(embed_dim) {
  requireAtLeast("numEmbeddings", num_embeddings, 1);
  requireAtLeast("embedDim", embed_dim, 1);
  allocate("weight", {num_embeddings, embed_dim}, weight_);
}

void Embedding::forward(std::span<const int32_t> ids, MatrixView output) const {
  requireShape("output", readOnly(output), static_cast<Index>(ids.size()), embed_dim_);
  for (size_t t = 0; t < ids.size(); ++t) {
    const Index id = ids[t];
    if (id < 0 || id >= num_embeddings_) {
      refuse(ErrorCode::kInvalidArgument, "ids", "ids from 0 to " + std::to_string(num_embeddings_ - 1),
             std::to_string(id) + " at position " + std::to_string(t));
    }
    std::copy_n(weight_.data() + id * embed_dim_, embed_dim_,
                output.data() + static_cast<Index>(t) * output.outerStride());
  }
}

Variable Embedding::forward(Graph& graph, std::vector<int32_t> ids) const {
  Matrix y(static_cast<Index>(ids.size()), embed_dim_);
  forward(ids, y.view());
  return graph.record(std::move(y), {}, graph.requiresGradient(weight_.data()),
                      [this, ids = std::move(ids)](Matrix& dy, Backward& pass) {
                        for (size_t t = 0; t < ids.size(); ++t) {
                          float* row = pass.tableRow(weight_.data(), ids[t]);
                          if (row) accumulate(embed_dim_, dy.data() + static_cast<Index>(t) * embed_dim_, row);
                        }
                      });
}

std::vector<Parameter> Embedding::ownParameters() {
  return {plainParameter("weight", {num_embeddings_, embed_dim_}, weight_.data(), ParameterKind::kWeight,
                         InitialValue::normal())};
}

}  // namespace heed::train
