/// Y = Z * X * c with the draws Z (0 or 1) of a DropoutKey and the factor c of the kept entries; dX = Z * dY * c, for
/// which the draws are repeated.
#include "heed/dropout.h"

#include "heed/train/ops.h"

namespace heed::train {

Variable dropout(Graph& graph, const Variable& x, float p, DropoutScaling scaling, const DropoutKey& key) {
  const Index first_row = graph.context().random.first_row;
  Matrix y(x.rows(), x.cols());
  heed::dropout(x.value(), p, scaling, key, y.view(), first_row);
  return graph.record(std::move(y), {x}, false,
                      [node = x.node(), p, scaling, key, first_row](Matrix& gradient, Backward& pass) {
                        heed::dropout(gradient.values(), p, scaling, key, gradient.view(), first_row);
                        pass.give(node, std::move(gradient));
                      });
}

}  // namespace heed::train
