/// Y = softmax(X) of each row; dX = Y * (dY - rowsum(dY * Y)).
#include "heed/train/ops.h"
#include "ops/softmax.h"
#include "ops/vectors.h"

namespace heed::train {

Variable softmax(Graph& graph, const Variable& x) {
  Matrix value(x.value());
  const Index width = value.cols();
  for (Index t = 0; t < value.rows(); ++t) softmaxRow(value.data() + t * width, width);
  const Variable result = graph.record(std::move(value), {x}, false, {});
  if (!result.node()) return result;
  result.node()->backward = [y = result.shared(), node = x.node()](Matrix& gradient, Backward& pass) {
    const Index columns = gradient.cols();
    for (Index t = 0; t < gradient.rows(); ++t) {
      const float* row = y->data() + t * columns;
      float* d = gradient.data() + t * columns;
      const float sum = sumOver(columns, [](const auto& a, const auto& b) { return a * b; }, row, d);
      transform<4>(columns, d, [sum](const auto& a, const auto& b) { return a * (b - simd::splat(sum)); }, row, d);
    }
    pass.give(node, std::move(gradient));
  };
  return result;
}

}  // namespace heed::train
