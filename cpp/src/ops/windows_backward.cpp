/// Y(t, e K + k) = X(t + k - (K - 1) / 2, e) within the sequence, otherwise 0. dX(s, e) = sum of dY(t, e K + k) over
/// the windows t that contain s.
#include "heed/train/backward.h"
#include "heed/train/ops.h"
#include "ops/windows.h"

namespace heed::train {

Variable gatherWindows(Graph& graph, const Variable& x, const Sequences& sequences, Index width) {
  Matrix y(x.rows(), x.cols() * width);
  heed::gatherWindows(x.value(), sequences, width, y.view());
  return graph.record(std::move(y), {x}, false, [node = x.node(), sequences, width](Matrix& dy, Backward& pass) {
    pass.add(node, [&](MatrixView out, const ConstMatrixView* residual) {
      if (!residual) out.setZero();
      scatterWindows(dy.values(), sequences, width, out);
    });
  });
}

}  // namespace heed::train
