/// Y(u, e K + k) = X(u stride + k dilation - before, e) within the sequence, otherwise 0. dX(s, e) = sum of
/// dY(u, e K + k) over the windows u that contain s.
#include "heed/train/ops.h"
#include "ops/windows.h"

namespace heed::train {

Variable gatherWindows(Graph& graph, const Variable& x, const Sequences& sequences, const Windows& windows) {
  Matrix y(windowSequences(windows, sequences).totalRows(), x.cols() * windows.width);
  heed::gatherWindows(x.value(), sequences, windows, y.view());
  return graph.record(std::move(y), {x}, false, [node = x.node(), sequences, windows](Matrix& dy, Backward& pass) {
    scatterWindows(dy.values(), sequences, windows, pass.gradient(node));
  });
}

}  // namespace heed::train
