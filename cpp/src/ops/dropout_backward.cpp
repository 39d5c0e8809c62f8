/// Y = Z * X * c with the draws Z (0 or 1) of a DropoutKey and the factor c of keepFactor(); dX = Z * dY * c, which
/// repeats the draws.
#include "heed/dropout.h"
#include "heed/train/ops.h"

namespace heed::train {

Variable dropout(Graph& graph, const Variable& x, const DropoutOptions& options, const DropoutKey& key,
                 Index first_column) {
  const auto apply = [=, first_row = graph.context().random.first_row](const Matrix& from, Matrix& to) {
    heed::dropout(from.values(), options, key, to.view(), first_row, first_column);
  };
  Matrix y(x.rows(), x.cols());
  apply(*x.shared(), y);
  return graph.record(std::move(y), {x}, false, [node = x.node(), apply](Matrix& gradient, Backward& pass) {
    apply(gradient, gradient);
    pass.give(node, std::move(gradient));
  });
}

}  // namespace heed::train
