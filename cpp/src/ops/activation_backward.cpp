/// Y = phi(X), backward dX = dY * phi'(X); the formulas are in ops/activations.h.
///
/// Gate with X = [A, B] or [B, A]: Y = phi(A) * B, backward dA = dY * B * phi'(A), dB = dY * phi(A).
#include <algorithm>
#include <array>

#include "core/check.h"
#include "heed/activation.h"
#include "heed/train/ops.h"
#include "ops/activations.h"
#include "ops/vectors.h"

namespace heed::train {
namespace {

/// dx = dy * phi'(x); dx may be dy.
template <class Phi>
void applyGradient(Index count, const float* x, const float* dy, float* dx) {
  transform<Phi::kGradientVectors>(count, dx, [](const auto& a, const auto& b) { return Phi::gradient(a, b); }, x, dy);
}

template <class... Phi>
constexpr auto gradientsOf(activations::List<Phi...>) {
  return std::array{applyGradient<Phi>...};
}

void activationGradient(Index count, const float* x, const float* dy, float* dx, Activation activation) {
  static constexpr auto kGradients = gradientsOf(activations::All());
  kGradients[static_cast<size_t>(activation)](count, x, dy, dx);
}

/// y = phi(x), in parts that stay in the first-level cache between the copy and phi.
void applyTo(const Matrix& x, Activation activation, Matrix& y) {
  constexpr Index kPart = 2048;
  for (Index first = 0, count; first < x.size(); first += count) {
    count = std::min(kPart, x.size() - first);
    std::copy_n(x.data() + first, count, y.data() + first);
    heed::activate(y.data() + first, count, activation);
  }
}

}  // namespace

Variable activate(Graph& graph, const Variable& x, Activation activation) {
  if (activation == Activation::kIdentity) return x;
  const auto value = [saved = x.shared(), activation] {
    Matrix y(saved->rows(), saved->cols());
    applyTo(*saved, activation, y);
    return y;
  };
  return graph
      .record(value(), {x}, false,
              [saved = x.shared(), node = x.node(), activation](Matrix& gradient, Backward& pass) {
                activationGradient(gradient.size(), saved->data(), gradient.data(), gradient.data(), activation);
                pass.give(node, std::move(gradient));
              })
      .recomputedBy(value);
}

Variable gate(Graph& graph, const Variable& x, Activation activation, bool second) {
  if (x.cols() % 2 != 0) throwShapeMismatch("x", "an even number of columns", Shape{x.rows(), x.cols()});
  const Index width = x.cols() / 2, first_a = second ? width : 0, first_b = width - first_a;
  const auto value = [saved = x.shared(), activation, width, first_a, first_b] {
    Matrix y(saved->rows(), width);
    y.view() = saved->values().middleCols(first_a, width);
    heed::activate(y.data(), y.size(), activation);
    y.view().array() *= saved->values().middleCols(first_b, width).array();
    return y;
  };
  return graph
      .record(value(), {x}, false,
              [saved = x.shared(), node = x.node(), activation, first_a, first_b](Matrix& dy, Backward& pass) {
                const Index columns = dy.cols();
                Matrix dx(saved->rows(), saved->cols());
                for (Index t = 0; t < dx.rows(); ++t) {
                  const float *row = saved->data() + t * 2 * columns, *a = row + first_a, *b = row + first_b;
                  float *dx_row = dx.data() + t * 2 * columns, *da = dx_row + first_a, *db = dx_row + first_b;
                  const float* out = dy.data() + t * columns;
                  const auto product = [](const auto& p, const auto& q) { return p * q; };
                  std::copy_n(a, columns, db);
                  heed::activate(db, columns, activation);
                  transform<4>(columns, db, product, db, out);
                  transform<4>(columns, da, product, b, out);
                  activationGradient(columns, a, da, da, activation);
                }
                pass.give(node, std::move(dx));
              })
      .recomputedBy(value);
}

}  // namespace heed::train
