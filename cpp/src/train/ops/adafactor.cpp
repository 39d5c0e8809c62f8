/// Adafactor (Shazeer, Stern 2018, arXiv:1804.04235), as torch.optim.Adafactor. Step n, with b = n^beta2Decay:
///
///   w *= 1 - lr wd
///   matrices: r += b (row means of g^2 - r), c += b (column means of g^2 - c), v = r c / max(mean of r, e1)
///   vectors:  v += b (g^2 - v)
///   u = g / sqrt(max(v, e1^2))
///   w -= max(e2, rms(w)) min(lr, 1 / sqrt(n)) u / max(1, rms(u) / d), with rms(w) from before the decay
///
/// rms(x) is the root of the mean of x^2, d the clip threshold. The last two axes of a parameter are those of its
/// matrices; a parameter without axes is a vector of one element. Only r and c are stored: a row and a column per
/// matrix. Sums are computed in double precision.
#include <algorithm>
#include <cmath>

#include "core/elementary.h"
#include "train/ops/update.h"

namespace heed::train {
namespace {

/// Matrices: `rows` x `columns` elements each, one after another. A vector is one row.
struct Matrices {
  Index rows, columns, count;

  explicit Matrices(const Shape& shape)
      : rows(shape.rank() > 1 ? shape[-2] : 1),
        columns(shape.columns()),
        count(shape.size() == 0 ? 0 : shape.size() / (rows * columns)) {}
  /// The index of the row of all matrices, and that of the column of all matrices, of an element.
  Index row(Index element) const { return element / columns; }
  Index column(Index element) const { return element / (rows * columns) * columns + element % columns; }
};

/// Calls f(element, gradient) for all elements in order.
template <class F>
void forEachGradient(const WholeParameter& parameter, const F& f) {
  for (Index row = 0; row < parameter.rows; row += parameter.block) {
    const Index count = std::min(parameter.block, parameter.rows - row);
    const float* g = parameter.gradient(row, count);
    for (Index i = 0; i < count * parameter.width; ++i) f(row * parameter.width + i, static_cast<double>(g[i]));
  }
}

double rootMean(double squares, Index count) { return std::sqrt(squares / static_cast<double>(count)); }

/// moment += b (value - moment)
void updateMovingAverage(float& moment, double value, double b) {
  const auto before = static_cast<double>(moment);
  moment = static_cast<float>(before + b * (value - before));
}

/// updateMovingAverage() with sums / count.
void updateMovingAverages(std::vector<float>& moments, const double* sums, Index count, double b) {
  for (size_t i = 0; i < moments.size(); ++i) updateMovingAverage(moments[i], sums[i] / static_cast<double>(count), b);
}

/// Updates the moments. Returns for each matrix max(mean of r, e1), or null for vectors.
const double* updateMoments(const GroupOptions& options, double b, const WholeParameter& parameter) {
  const Matrices matrices(parameter.shape);
  std::vector<float>*first = &parameter.moments[0], *second = &parameter.moments[1];
  if (parameter.shape.rank() < 2) {
    forEachGradient(parameter,
                    [&](Index i, double g) { updateMovingAverage((*first)[static_cast<size_t>(i)], g * g, b); });
    return nullptr;
  }
  double *of_rows = parameter.scratch, *of_columns = of_rows + first->size(), *means = of_columns + second->size();
  std::fill(of_rows, means, 0);
  forEachGradient(parameter, [&](Index i, double g) {
    of_rows[matrices.row(i)] += g * g;
    of_columns[matrices.column(i)] += g * g;
  });
  updateMovingAverages(*first, of_rows, matrices.columns, b);
  updateMovingAverages(*second, of_columns, matrices.rows, b);
  for (Index matrix = 0; matrix < matrices.count; ++matrix) {
    double sum = 0;
    for (Index i = 0; i < matrices.rows; ++i)
      sum += static_cast<double>((*first)[static_cast<size_t>(matrix * matrices.rows + i)]);
    means[matrix] = std::max(sum / static_cast<double>(matrices.rows), options.gradient_eps);
  }
  return means;
}

}  // namespace

std::vector<Moment> adafactorMoments(const GroupOptions&, const Shape& shape) {
  if (shape.rank() < 2) return {{"variance", shape}};
  std::vector<Index> of_rows = shape.extents(), of_columns = shape.extents();
  of_rows[of_rows.size() - 1] = 1;
  of_columns[of_columns.size() - 2] = 1;
  return {{"row_var", Shape(of_rows)}, {"col_var", Shape(of_columns)}};
}

size_t adafactorScratch(const Shape& shape) {
  if (shape.rank() < 2) return 0;
  const Matrices matrices(shape);
  return static_cast<size_t>(matrices.count) * static_cast<size_t>(matrices.rows + matrices.columns + 1);
}

void adafactorStep(const GroupOptions& options, int64_t n, const WholeParameter& parameter) {
  const Index size = parameter.rows * parameter.width;
  if (size == 0) return;  // means of no elements are NaN
  const auto step = static_cast<double>(n);
  const Matrices matrices(parameter.shape);
  const double* means = updateMoments(options, elementary::pow(step, options.beta2_decay), parameter);
  const double least = options.gradient_eps * options.gradient_eps;
  const std::vector<float>*first = &parameter.moments[0], *second = &parameter.moments[1];
  const auto update = [&](Index i, double g) {
    double variance;
    if (!means) {
      variance = static_cast<double>((*first)[static_cast<size_t>(i)]);
    } else {
      const Index row = matrices.row(i);
      variance = static_cast<double>((*first)[static_cast<size_t>(row)]) *
                 static_cast<double>((*second)[static_cast<size_t>(matrices.column(i))]) / means[row / matrices.rows];
    }
    return g == 0 ? 0 : g / std::sqrt(std::max(variance, least));
  };
  double squares = 0, update_squares = 0;
  for (Index row = 0; row < parameter.rows; row += parameter.block) {
    const Index count = std::min(parameter.block, parameter.rows - row);
    squares += squaresOf(count * parameter.width, parameter.read(row, count));
  }
  forEachGradient(parameter, [&](Index i, double g) { update_squares += update(i, g) * update(i, g); });
  const double clip = std::max(1.0, rootMean(update_squares, size) / options.clip_threshold);
  const double rate =
      std::max(options.parameter_eps, rootMean(squares, size)) * std::min(options.lr, 1 / std::sqrt(step)) / clip;
  const double decay = 1 - options.lr * options.weight_decay;
  for (Index row = 0; row < parameter.rows; row += parameter.block) {
    const Index count = std::min(parameter.block, parameter.rows - row);
    const float* g = parameter.gradient(row, count);
    float* w = parameter.read(row, count);
    for (Index i = 0; i < count * parameter.width; ++i) {
      const double u = update(row * parameter.width + i, static_cast<double>(g[i]));
      w[i] = static_cast<float>(decay * static_cast<double>(w[i]) - rate * u);
    }
    parameter.write(row, count);
  }
}

}  // namespace heed::train
