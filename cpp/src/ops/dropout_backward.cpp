/// Y = Z * X * c with the draws Z (0 or 1) of a DropoutKey and the factor c of keptScale(); dX = Z * dY * c, which
/// repeats the draws.
#include "core/check.h"
#include "heed/dropout.h"
#include "heed/train/ops.h"
#include "train/ops/dropout_draws.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

/// Computes the same as heed::dropout(), but with 16 draws at a time. `out` may be x.
struct DropoutMask {
  float p, factor;
  DropoutKey key;
  Index first_row, first_column;

  void apply(const Matrix& x, Matrix& out) const {
    const Index width = x.cols();
    if (first_column % 4 != 0) return applyOneByOne(x, out);
    DropoutDraws draws(key, p, 0, 0, 0);
    for (Index t = 0; t < x.rows(); ++t) {
      draws.setRow(first_row + t);
      Index column = first_column;
      const auto drop = [&](const simd::Floats<4>& entries) {
        const simd::Floats<4> dropped = draws.dropped(column);
        column += 16;
        return each([](v128_t a, v128_t mask) { return wasm_v128_andnot(a, mask); }, entries * simd::splat(factor),
                    dropped);
      };
      transform<4>(width, out.data() + t * width, drop, x.data() + t * width);
    }
  }

  void applyOneByOne(const Matrix& x, Matrix& out) const {
    for (Index t = 0; t < x.rows(); ++t) {
      DropoutRow draws(key, 0, 0, first_row + t);
      for (Index e = 0; e < x.cols(); ++e)
        out.view()(t, e) = draws.drops(first_column + e, p) ? 0 : x.values()(t, e) * factor;
    }
  }
};

}  // namespace

Variable dropout(Graph& graph, const Variable& x, const DropoutOptions& options, const DropoutKey& key,
                 Index first_column) {
  const auto [p, scaling] = options;
  requireRate("p", p);
  const DropoutMask mask{p, keptScale(p, scaling), key, graph.context().random.first_row, first_column};
  Matrix y(x.rows(), x.cols());
  mask.apply(*x.shared(), y);
  return graph.record(std::move(y), {x}, false, [node = x.node(), mask](Matrix& gradient, Backward& pass) {
    mask.apply(gradient, gradient);
    pass.give(node, std::move(gradient));
  });
}

}  // namespace heed::train
