/// Batch norm of each column: y = gamma * n + delta, n = (x - mean) r, r = 1 / sqrt(variance + eps).
///
/// In training mode, mean and variance (divided by T) are those of the column's T rows. The moving averages become
/// (1 - m) average + m statistic with the momentum m and the unbiased variance (divided by T - 1). Otherwise, mean and
/// variance are the moving averages.
///
/// Backward: ddelta = colsum(dy), dgamma = colsum(dy * n), and
///
///   dx = gamma r (dy - ddelta / T - n dgamma / T)   in training mode
///   dx = gamma r dy                                 otherwise
#include <cmath>

#include "core/check.h"
#include "heed/train/ops.h"
#include "ops/vectors.h"

namespace heed::train {
namespace {

/// Calls f(i, c) for every element, where i is its index and c its column.
template <class F>
void forEach(const Matrix& x, const F& f) {
  for (Index i = 0, c = 0; i < x.size(); ++i, c = c + 1 == x.cols() ? 0 : c + 1)
    f(static_cast<size_t>(i), static_cast<size_t>(c));
}

/// The statistics that normalize columns: the mean, and r = 1 / sqrt(variance + eps).
struct ColumnStatistics {
  std::vector<float> mean, scale;

  void add(double column_mean, double variance, float eps) {
    mean.push_back(static_cast<float>(column_mean));
    scale.push_back(static_cast<float>(1 / std::sqrt(variance + static_cast<double>(eps))));
  }
  float normalized(float x, size_t c) const { return (x - mean[c]) * scale[c]; }
};

/// The mean of each column of a batch, and the sum of squared differences from it.
struct BatchStatistics {
  std::vector<double> mean, squares;
};

BatchStatistics batchStatistics(const Matrix& x) {
  if (x.rows() < 2)
    throwShapeMismatch("x", "at least 2 rows in training mode, as one row has no variance", Shape{x.rows(), x.cols()});
  const auto count = static_cast<double>(x.rows());
  std::vector<double> mean(static_cast<size_t>(x.cols())), squares(mean);
  forEach(x, [&](size_t i, size_t c) { mean[c] += static_cast<double>(x.data()[i]); });
  for (double& each : mean) each /= count;
  forEach(x, [&](size_t i, size_t c) {
    const double difference = static_cast<double>(x.data()[i]) - mean[c];
    squares[c] += difference * difference;
  });
  return {std::move(mean), std::move(squares)};
}

void updateAverages(BatchNorm& layer, const BatchStatistics& batch, double count) {
  const auto update = [m = static_cast<double>(layer.options().momentum)](float& average, double statistic) {
    average = static_cast<float>((1 - m) * static_cast<double>(average) + m * statistic);
  };
  for (size_t c = 0; c < batch.mean.size(); ++c) {
    update(layer.runningMean()[c], batch.mean[c]);
    update(layer.runningVar()[c], batch.squares[c] / (count - 1));
  }
}

}  // namespace

Variable batchNorm(Graph& graph, BatchNorm& layer, const Variable& x) {
  const Index width = layer.options().num_features;
  requireShape("x", x.value(), x.rows(), width);
  const bool batch = layer.training();
  ColumnStatistics used;
  BatchStatistics statistics;
  Matrix y(x.rows(), width);
  if (batch) {
    statistics = batchStatistics(*x.shared());
    const auto count = static_cast<double>(x.rows());
    for (size_t c = 0; c < statistics.mean.size(); ++c)
      used.add(statistics.mean[c], statistics.squares[c] / count, layer.options().eps);
    forEach(y, [&, from = x.shared()->data()](size_t i, size_t c) {
      y.data()[i] = used.normalized(from[i], c) * layer.weight()[c] + layer.bias()[c];
    });
  } else {
    layer.forward(x.value(), y.view());
    for (Index c = 0; c < width; ++c) {
      used.add(static_cast<double>(layer.runningMean()[c]), static_cast<double>(layer.runningVar()[c]),
               layer.options().eps);
    }
  }
  const bool trains = graph.requiresGradient(layer.weight()) || graph.requiresGradient(layer.bias());
  Variable result = graph.record(
      std::move(y), {x}, trains,
      [&layer, saved = x.shared(), node = x.node(), batch, used = std::move(used)](Matrix& gradient, Backward& pass) {
        const float* from = saved->data();
        float* d = gradient.data();
        std::vector<double> dgamma(used.mean.size()), ddelta(used.mean.size());
        forEach(gradient, [&](size_t i, size_t c) {
          dgamma[c] += static_cast<double>(d[i] * used.normalized(from[i], c));
          ddelta[c] += static_cast<double>(d[i]);
        });
        const auto add_to = [&](const float* parameter, const std::vector<double>& sums) {
          // Vectors are stored as one column.
          pass.addToParameter(parameter, [&](MatrixView out, Index) {
            for (size_t c = 0; c < sums.size(); ++c) out.data()[c] += static_cast<float>(sums[c]);
          });
        };
        add_to(layer.weight(), dgamma);
        add_to(layer.bias(), ddelta);
        if (!node) return;
        const double share = batch ? 1 / static_cast<double>(gradient.rows()) : 0;
        forEach(gradient, [&](size_t i, size_t c) {
          const float mean_dy = static_cast<float>(ddelta[c] * share), mean_dyn = static_cast<float>(dgamma[c] * share);
          d[i] = layer.weight()[c] * used.scale[c] * (d[i] - mean_dy - used.normalized(from[i], c) * mean_dyn);
        });
        pass.give(node, std::move(gradient));
      });
  // Done last, when nothing can fail any more.
  if (batch) updateAverages(layer, statistics, static_cast<double>(x.rows()));
  return result;
}

}  // namespace heed::train
