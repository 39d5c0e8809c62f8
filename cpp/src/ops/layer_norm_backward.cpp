/// Layer norm of each row: y = gamma * n + delta, n = (x - mean) r, r = 1 / sqrt(variance + eps).
///
/// Backward with g = gamma * dy: dx = r (g - mean(g) - n mean(g * n)), dgamma = sum over rows of dy * n, ddelta = sum
/// over rows of dy.
///
/// RMSNorm: y = (gamma + offset) * n, n = x r, r = 1 / sqrt(mean(x^2) + eps). Backward with g = (gamma + offset) * dy:
/// dx = r (g - n mean(g * n)), dgamma = sum over rows of dy * n.
#include <cmath>

#include "core/check.h"
#include "heed/train/ops.h"
#include "ops/vectors.h"
#include "train/ops/sums.h"

namespace heed::train {
namespace {

struct RowStatistics {
  float mean, scale;
};

/// The same formula as in the forward pass (ops/layer_norm.cpp); the last bits may differ. The mean is exact for
/// constant rows, and the variance is the mean of squared differences.
RowStatistics statisticsOf(const float* x, Index width, float eps, bool rms) {
  const auto count = static_cast<float>(width);
  const v128_t first = simd::splat(x[0]);
  const float mean = rms ? 0 : x[0] + sumOver(width, [first](const auto& a) { return a - first; }, x) / count;
  const auto squared = [mean](const auto& a) {
    const auto centred = a - simd::splat(mean);
    return centred * centred;
  };
  return {mean, 1 / std::sqrt(sumOver(width, squared, x) / count + eps)};
}

/// Replaces dy by dx, and adds to dweight and dbias unless they are null. `weight` is null or (E). Rows of x may be a
/// multiple of E wide; each group of E columns is then normalized separately.
void normGradient(const Matrix& x, const float* weight, const LayerNormOptions& o, Matrix& dy, float* dweight,
                  float* dbias) {
  const Index width = o.normalized_shape, rows = x.rows() * x.cols() / width;
  const v128_t offset = simd::splat(o.weight_offset);
  RowSum weight_sum(dweight ? width : 0), bias_sum(dbias ? width : 0);
  for (Index t = 0; t < rows; ++t) {
    const float* row = x.data() + t * width;
    float* d = dy.data() + t * width;
    const RowStatistics statistics = statisticsOf(row, width, o.eps, o.rms);
    const v128_t mean = simd::splat(statistics.mean), scale = simd::splat(statistics.scale);
    if (dbias) bias_sum.add(d);
    if (dweight) {
      weight_sum.addBy([&](float* sum) {
        transform<4>(
            width, sum,
            [mean, scale](const auto& before, const auto& a, const auto& b) {
              return before + b * ((a - mean) * scale);
            },
            sum, row, d);
      });
    }
    if (weight) transform<4>(width, d, [offset](const auto& a, const auto& b) { return a * (b + offset); }, d, weight);
    const float g = o.rms ? 0 : sumOver(width, [](const auto& a) { return a; }, d);
    const float gn =
        sumOver(width, [mean, scale](const auto& a, const auto& b) { return a * ((b - mean) * scale); }, d, row);
    const auto count = static_cast<float>(width);
    const v128_t mean_g = simd::splat(g / count), mean_gn = simd::splat(gn / count);
    transform<4>(
        width, d, [=](const auto& a, const auto& b) { return ((a - mean_g) - (b - mean) * scale * mean_gn) * scale; },
        d, row);
  }
  if (dweight) weight_sum.addTo(dweight);
  if (dbias) bias_sum.addTo(dbias);
}

}  // namespace

Variable layerNorm(Graph& graph, const LayerNorm& layer, const Variable& x) {
  if (x.cols() % layer.options().normalized_shape != 0)
    requireColumns("x", x.value(), layer.options().normalized_shape);
  const auto value = [&layer, saved = x.shared()] {
    const Index width = layer.options().normalized_shape, rows = saved->rows() * saved->cols() / width;
    Matrix y(saved->rows(), saved->cols());
    layer.forward(view(saved->data(), rows, width), view(y.data(), rows, width));
    return y;
  };
  const bool trains = graph.requiresGradient(layer.weight()) || graph.requiresGradient(layer.bias());
  return graph
      .record(value(), {x}, trains,
              [&layer, saved = x.shared(), node = x.node()](Matrix& gradient, Backward& pass) {
                float *dweight = nullptr, *dbias = nullptr;
                pass.addToParameter(layer.weight(), [&](MatrixView d, Index) { dweight = d.data(); });
                pass.addToParameter(layer.bias(), [&](MatrixView d, Index) { dbias = d.data(); });
                normGradient(*saved, layer.weight(), layer.options(), gradient, dweight, dbias);
                pass.give(node, std::move(gradient));
              })
      .recomputedBy(value);
}

Variable layerNorm(Graph& graph, const Variable& x, const Variable& weight, const Variable& bias, float eps) {
  requireAtLeast("x", x.cols(), 1);
  requireEps(eps);
  if (weight) requireShape("weight", weight.value(), 1, x.cols());
  if (bias) requireShape("bias", bias.value(), 1, x.cols());
  Matrix y(x.rows(), x.cols());
  heed::layerNorm(x.value(), weight ? weight.shared()->data() : nullptr, bias ? bias.shared()->data() : nullptr, eps,
                  y.view());
  return graph.record(std::move(y), {x, weight, bias}, false,
                      [saved = x.shared(), gamma = weight ? weight.shared() : nullptr, eps, node = x.node(),
                       weight = weight.node(), bias = bias.node()](Matrix& gradient, Backward& pass) {
                        normGradient(*saved, gamma ? gamma->data() : nullptr,
                                     {.normalized_shape = saved->cols(), .eps = eps}, gradient,
                                     pass.gradient(weight).data(), pass.gradient(bias).data());
                        pass.give(node, std::move(gradient));
                      });
}

}  // namespace heed::train
