/// Rotary positions rotate the pair (a, b) by an angle t: (a cos t - b sin t, a sin t + b cos t). The gradient is
/// rotated by -t: (da cos t + db sin t, -da sin t + db cos t).
#include "core/check.h"
#include "heed/train/backward.h"
#include "heed/train/ops.h"

namespace heed::train {
namespace {

/// Rotates the rows of one sequence by the negated angles, in place.
void rotateBack(const Rotary& rotary, Index num_heads, Index first_position, MatrixView x) {
  const Index half = rotary.dim() / 2, head_width = x.cols() / num_heads;
  const bool split = rotary.pairing() == Rotary::Pairing::kHalfSplit;
  const Index step = split ? 1 : 2, partner = split ? half : 1;
  for (Index i = 0; i < x.rows(); ++i) {
    const float *cos = rotary.cos(first_position + i), *sin = rotary.sin(first_position + i);
    for (Index h = 0; h < num_heads; ++h) {
      float* head = x.data() + i * x.outerStride() + h * head_width;
      for (Index k = 0; k < half; ++k) {
        const float a = head[k * step], b = head[k * step + partner];
        head[k * step] = a * cos[k] + b * sin[k];
        head[k * step + partner] = b * cos[k] - a * sin[k];
      }
    }
  }
}

MatrixView rowsOf(MatrixView x, const Sequences& sequences, Index n) {
  return view(x.data() + sequences.begin(n) * x.outerStride(), sequences.length(n), x.cols(), x.outerStride());
}

}  // namespace

Variable rotate(Graph& graph, const std::shared_ptr<const Rotary>& rotary, const Variable& x,
                const Sequences& sequences, Index num_heads, Index first_position) {
  requireShape("x", x.value(), sequences.totalRows(), x.cols());
  Matrix y(x.value());
  for (Index n = 0; n < sequences.count(); ++n)
    rotary->rotate(rowsOf(y.view(), sequences, n), num_heads, first_position);
  return graph.record(
      std::move(y), {x}, false,
      [rotary, node = x.node(), sequences, num_heads, first_position](Matrix& gradient, Backward& pass) {
        for (Index n = 0; n < sequences.count(); ++n)
          rotateBack(*rotary, num_heads, first_position, rowsOf(gradient.view(), sequences, n));
        pass.give(node, std::move(gradient));
      });
}

}  // namespace heed::train
