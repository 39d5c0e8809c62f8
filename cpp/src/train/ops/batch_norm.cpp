/// Batch norm of each column: y = gamma * n + delta, n = (x - mean) r, r = 1 / sqrt(variance + eps).
///
/// In training mode, mean and variance (with 1 / T) are those of the column's T rows, and the moving averages become
/// (1 - m) average + m statistic with m = 0.1 and the unbiased variance, with 1 / (T - 1). Otherwise mean and variance
/// are the moving averages.
///
/// Backward: ddelta = colsum(dy), dgamma = colsum(dy * n), and
///
///   dx = gamma r (dy - ddelta / T - n dgamma / T)   in training mode
///   dx = gamma r dy                                 otherwise
#include "core/check.h"
#include "heed/train/ops.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

constexpr double kMomentum = 0.1;

using Row = Eigen::Array<double, 1, Eigen::Dynamic>;
using FloatRow = Eigen::Array<float, 1, Eigen::Dynamic>;

Eigen::Map<FloatRow> rowOf(float* values, Index width) { return {values, width}; }
Eigen::Map<const FloatRow> rowOf(const float* values, Index width) { return {values, width}; }

/// The sum of f(t), a row, over all rows t.
template <class F>
Row sumOfRows(Index rows, Index width, const F& f) {
  Row sum = Row::Zero(width);
  for (Index t = 0; t < rows; ++t) sum += f(t);
  return sum;
}

/// What normalizes the columns: mean, and r = 1 / sqrt(variance + eps).
struct Statistics {
  FloatRow mean, scale;
};

Statistics batchStatistics(BatchNorm& layer, ConstMatrixView x) {
  const Index rows = x.rows(), width = x.cols();
  if (rows < 2)
    refuseShape("x", "at least 2 rows in training mode, which has no variance otherwise", Shape{rows, width});
  const auto count = static_cast<double>(rows);
  const Row mean = sumOfRows(rows, width, [&](Index t) { return x.row(t).array().cast<double>(); }) / count;
  const Row squares =
      sumOfRows(rows, width, [&](Index t) { return (x.row(t).array().cast<double>() - mean).square(); });
  const auto update = [width](float* average, const Row& statistic) {
    rowOf(average, width) =
        ((1 - kMomentum) * rowOf(average, width).cast<double>() + kMomentum * statistic).cast<float>();
  };
  update(layer.runningMean(), mean);
  update(layer.runningVar(), squares / (count - 1));
  return {mean.cast<float>(),
          (squares / count + static_cast<double>(layer.options().eps)).sqrt().inverse().cast<float>()};
}

}  // namespace

Variable batchNorm(Graph& graph, BatchNorm& layer, const Variable& x) {
  const Index width = layer.options().num_features;
  requireShape("x", x.value(), x.rows(), width);
  const bool batch = layer.training();
  Statistics used;
  Matrix y(x.rows(), width);
  if (batch) {
    used = batchStatistics(layer, x.value());
    for (Index t = 0; t < y.rows(); ++t) {
      y.view().row(t).array() = (x.value().row(t).array() - used.mean) * used.scale * rowOf(layer.weight(), width) +
                                rowOf(layer.bias(), width);
    }
  } else {
    layer.forward(x.value(), y.view());
    used = {rowOf(layer.runningMean(), width),
            (rowOf(layer.runningVar(), width) + layer.options().eps).sqrt().inverse()};
  }
  const bool trains = graph.requiresGradient(layer.weight()) || graph.requiresGradient(layer.bias());
  return graph.record(
      std::move(y), {x}, trains,
      [&layer, kept = x.shared(), node = x.node(), batch, used](Matrix& gradient, Backward& pass) {
        const Index rows = gradient.rows(), columns = gradient.cols();
        const auto dy = [&](Index t) { return gradient.values().row(t).array(); };
        const auto normed = [&](Index t) { return (kept->values().row(t).array() - used.mean) * used.scale; };
        const Row ddelta = sumOfRows(rows, columns, [&](Index t) { return dy(t).template cast<double>(); });
        const Row dgamma =
            sumOfRows(rows, columns, [&](Index t) { return (dy(t) * normed(t)).template cast<double>(); });
        // Vectors are stored as one column.
        pass.addToParameter(layer.weight(), [&](MatrixView d) { rowOf(d.data(), columns) += dgamma.cast<float>(); });
        pass.addToParameter(layer.bias(), [&](MatrixView d) { rowOf(d.data(), columns) += ddelta.cast<float>(); });
        if (!node) return;
        const FloatRow slope = rowOf(layer.weight(), columns) * used.scale;
        const double count = batch ? static_cast<double>(rows) : 0;
        const FloatRow mean_dy = batch ? FloatRow((ddelta / count).cast<float>()) : FloatRow::Zero(columns);
        const FloatRow mean_dyn = batch ? FloatRow((dgamma / count).cast<float>()) : FloatRow::Zero(columns);
        for (Index t = 0; t < rows; ++t)
          gradient.view().row(t).array() = slope * (dy(t) - mean_dy - normed(t) * mean_dyn);
        pass.give(node, std::move(gradient));
      });
}

}  // namespace heed::train
