/// Rotary positions rotate the pair (a, b) by an angle t: (a cos t - b sin t, a sin t + b cos t). The gradient is
/// rotated by -t: (da cos t + db sin t, -da sin t + db cos t).
#include "core/check.h"
#include "heed/train/ops.h"

namespace heed::train {

Variable rotate(Graph& graph, const std::shared_ptr<const Rotary>& rotary, const Variable& x,
                const Sequences& sequences, Index num_heads, Index first_position) {
  requireShape("x", x.value(), sequences.totalRows(), x.cols());
  const auto rotate_all = [=](MatrixView all, bool back) {
    for (Index n = 0; n < sequences.count(); ++n)
      rotary->rotate(rowsOf(all, sequences.begin(n), sequences.end(n)), num_heads, first_position, back);
  };
  Matrix y(x.value());
  rotate_all(y.view(), false);
  return graph.record(std::move(y), {x}, false, [rotate_all, node = x.node()](Matrix& gradient, Backward& pass) {
    rotate_all(gradient.view(), true);
    pass.give(node, std::move(gradient));
  });
}

}  // namespace heed::train
