/// Elementwise operations on matrices of the same shape:
///
///   Y = A + B   dA = dY, dB = dY
///   Y = A * B   dA = dY * B, dB = dY * A
///   Y = c X     dX = c dY
///   Y_te = X_te w_e   dX_te = dY_te w_e, dw_e = sum over t of dY_te X_te
#include "core/check.h"
#include "heed/norm.h"
#include "heed/train/ops.h"
#include "ops/vectors.h"
#include "train/ops/sums.h"

namespace heed::train {
namespace {

constexpr auto kSum = [](const auto& a, const auto& b) { return a + b; };

/// y = factor x; y may be x.
void multiplyBy(float factor, Index count, const float* x, float* y) {
  transform<4>(count, y, [factor](const auto& a) { return a * simd::splat(factor); }, x);
}

}  // namespace

Variable add(Graph& graph, const Variable& a, const Variable& b) {
  requireShape("b", b.value(), a.rows(), a.cols());
  Matrix y(a.rows(), a.cols());
  transform<4>(y.size(), y.data(), kSum, a.shared()->data(), b.shared()->data());
  return graph.record(std::move(y), {a, b}, false, [a = a.node(), b = b.node()](Matrix& dy, Backward& pass) {
    if (!b) return pass.give(a, std::move(dy));
    pass.addValue(a, dy.values());
    pass.give(b, std::move(dy));
  });
}

Variable multiply(Graph& graph, const Variable& a, const Variable& b) {
  requireShape("b", b.value(), a.rows(), a.cols());
  Matrix y(a.rows(), a.cols());
  transform<4>(y.size(), y.data(), kProduct, a.shared()->data(), b.shared()->data());
  // Each factor is saved only if the gradient of the other needs it.
  const auto saved_a = b.needsGradient() ? a.shared() : nullptr, saved_b = a.needsGradient() ? b.shared() : nullptr;
  return graph.record(std::move(y), {a, b}, false,
                      [a = a.node(), b = b.node(), saved_a, saved_b](Matrix& dy, Backward& pass) {
                        if (a) pass.addValue(a, dy.values().cwiseProduct(saved_b->values()));
                        if (!b) return;
                        transform<4>(dy.size(), dy.data(), kProduct, dy.data(), saved_a->data());
                        pass.give(b, std::move(dy));
                      });
}

Variable scale(Graph& graph, const Variable& x, float factor) {
  Matrix y(x.rows(), x.cols());
  multiplyBy(factor, y.size(), x.shared()->data(), y.data());
  return graph.record(std::move(y), {x}, false, [node = x.node(), factor](Matrix& dy, Backward& pass) {
    multiplyBy(factor, dy.size(), dy.data(), dy.data());
    pass.give(node, std::move(dy));
  });
}

Variable scaleColumns(Graph& graph, const LayerScale& layer, const Variable& x) {
  Matrix y(x.rows(), x.cols());
  layer.forward(x.value(), y.view());
  return graph.record(std::move(y), {x}, graph.requiresGradient(layer.weight()),
                      [&layer, saved = x.shared(), node = x.node()](Matrix& gradient, Backward& pass) {
                        pass.addToParameter(layer.weight(), [&](MatrixView d, Index) {
                          const Index width = gradient.cols();
                          RowSum total(width);
                          for (Index t = 0; t < gradient.rows(); ++t) {
                            total.addBy([&](float* sum) {
                              transform<4>(
                                  width, sum,
                                  [](const auto& before, const auto& a, const auto& b) { return before + a * b; }, sum,
                                  gradient.data() + t * width, saved->data() + t * width);
                            });
                          }
                          total.addTo(d.data());
                        });
                        layer.forward(gradient.values(), gradient.view());
                        pass.give(node, std::move(gradient));
                      });
}

}  // namespace heed::train
