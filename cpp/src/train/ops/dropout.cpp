/// Y = Z * X * c with the draws Z (0 or 1) of a DropoutKey and the factor c of the kept entries; dX = Z * dY * c, for
/// which the draws are repeated.
#include "heed/dropout.h"

#include "core/check.h"
#include "heed/train/ops.h"
#include "train/ops/dropout_factors.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

/// y = Z * x * c, as heed::dropout(); y may be x.
void drop(const Matrix& x, float p, DropoutScaling scaling, const DropoutKey& key, Index first_row, Matrix& y) {
  const Index width = x.cols();
  Matrix factors(1, width);
  for (Index t = 0; t < x.rows(); ++t) {
    dropoutFactors(key, 0, 0, first_row + t, p, keptScale(p, scaling), 0, width, factors.data());
    // Not only a product, so that dropped entries are 0 even where they were not finite.
    const auto product = [](v128_t a, v128_t factor) {
      return wasm_v128_and(wasm_f32x4_mul(a, factor), wasm_f32x4_ne(factor, simd::splat(0)));
    };
    transform<4>(
        width, y.data() + t * width, [&](const auto& a, const auto& factor) { return each(product, a, factor); },
        x.data() + t * width, factors.data());
  }
}

}  // namespace

Variable dropout(Graph& graph, const Variable& x, float p, DropoutScaling scaling, const DropoutKey& key) {
  requireRate("p", p);
  const Index first_row = graph.context().random.first_row;
  Matrix y(x.rows(), x.cols());
  drop(*x.shared(), p, scaling, key, first_row, y);
  return graph.record(std::move(y), {x}, false,
                      [node = x.node(), p, scaling, key, first_row](Matrix& gradient, Backward& pass) {
                        drop(gradient, p, scaling, key, first_row, gradient);
                        pass.give(node, std::move(gradient));
                      });
}

}  // namespace heed::train
