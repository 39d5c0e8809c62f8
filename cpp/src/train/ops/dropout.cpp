/// Y = Z * X * c with the draws Z (0 or 1) of a DropoutKey and the factor c of the kept entries; dX = Z * dY * c, for
/// which the draws are repeated.
#include "heed/dropout.h"

#include "core/check.h"
#include "heed/train/ops.h"
#include "train/ops/dropout_draws.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

/// What heed::dropout() computes, which draws one number after the other. `out` may be x.
struct Mask {
  float p, factor;
  DropoutKey key;
  Index first_row;

  void apply(const Matrix& x, Matrix& out) const {
    const Index width = x.cols();
    DropoutDraws draws(key, p, 0, 0, 0);
    for (Index t = 0; t < x.rows(); ++t) {
      draws.setRow(first_row + t);
      Index column = 0;
      const auto drop = [&](const simd::Floats<4>& entries) {
        const simd::Floats<4> dropped = draws.dropped(column);
        column += 16;
        return each([](v128_t a, v128_t mask) { return wasm_v128_andnot(a, mask); }, entries * simd::splat(factor),
                    dropped);
      };
      transform<4>(width, out.data() + t * width, drop, x.data() + t * width);
    }
  }
};

}  // namespace

Variable dropout(Graph& graph, const Variable& x, float p, DropoutScaling scaling, const DropoutKey& key) {
  requireRate("p", p);
  const Mask mask{p, keptScale(p, scaling), key, graph.context().random.first_row};
  Matrix y(x.rows(), x.cols());
  mask.apply(*x.shared(), y);
  return graph.record(std::move(y), {x}, false, [node = x.node(), mask](Matrix& gradient, Backward& pass) {
    mask.apply(gradient, gradient);
    pass.give(node, std::move(gradient));
  });
}

}  // namespace heed::train
