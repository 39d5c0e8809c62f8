/// Adafactor (Shazeer, Stern 2018, arXiv:1804.04235), as torch.optim.Adafactor. Step n, with b = n^beta2Decay:
///
///   w *= 1 - lr wd
///   matrices: r += b (row means of g^2 - r), c += b (column means of g^2 - c), v = r c / max(mean of r, e1)
///   vectors:  v += b (g^2 - v)
///   u = g / sqrt(max(v, e1^2))
///   w -= max(e2, rms(w)) min(lr, 1 / sqrt(n)) u / max(1, rms(u) / d), with rms(w) from before the decay
///
/// rms(x) is the root of the mean of x^2, d the clip threshold. The last two axes of a parameter are those of its
/// matrices. Only r and c are stored: a row and a column per matrix. Sums are computed in double precision.
#include <cmath>

#include "core/elementary.h"
#include "train/ops/update.h"

namespace heed::train {
namespace {

/// Matrices: `rows` x `columns` elements each, one after another. A vector is one row.
struct Matrices {
  Index rows, columns;

  explicit Matrices(const Shape& shape) : rows(shape.rank() > 1 ? shape[-2] : 1), columns(shape[-1]) {}
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

/// moment += b (sum / count - moment)
void follow(std::vector<float>& moment, const std::vector<double>& sums, Index count, double b) {
  for (size_t i = 0; i < moment.size(); ++i) {
    const auto before = static_cast<double>(moment[i]);
    moment[i] = static_cast<float>(before + b * (sums[i] / static_cast<double>(count) - before));
  }
}

/// Updates the moments. Returns for each matrix max(mean of r, e1), or nothing for vectors.
std::vector<double> updateMoments(const GroupOptions& options, double b, const WholeParameter& parameter) {
  const Matrices matrices(parameter.shape);
  std::vector<float>*first = &parameter.moments[0], *second = &parameter.moments[1];
  if (parameter.shape.rank() < 2) {
    std::vector<double> squares(first->size());
    forEachGradient(parameter, [&](Index i, double g) { squares[static_cast<size_t>(i)] = g * g; });
    follow(*first, squares, 1, b);
    return {};
  }
  std::vector<double> of_rows(first->size()), of_columns(second->size());
  forEachGradient(parameter, [&](Index i, double g) {
    of_rows[static_cast<size_t>(matrices.row(i))] += g * g;
    of_columns[static_cast<size_t>(matrices.column(i))] += g * g;
  });
  follow(*first, of_rows, matrices.columns, b);
  follow(*second, of_columns, matrices.rows, b);
  std::vector<double> means;
  for (size_t row = 0; row < first->size(); row += static_cast<size_t>(matrices.rows)) {
    double sum = 0;
    for (Index i = 0; i < matrices.rows; ++i) sum += static_cast<double>((*first)[row + static_cast<size_t>(i)]);
    means.push_back(std::max(sum / static_cast<double>(matrices.rows), options.gradient_eps));
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

void adafactorStep(const GroupOptions& options, int64_t n, const WholeParameter& parameter) {
  const Index size = parameter.rows * parameter.width;
  const auto step = static_cast<double>(n);
  const Matrices matrices(parameter.shape);
  const std::vector<double> means = updateMoments(options, elementary::pow(step, options.beta2_decay), parameter);
  const double least = options.gradient_eps * options.gradient_eps;
  const std::vector<float>*first = &parameter.moments[0], *second = &parameter.moments[1];
  const auto update = [&](Index i, double g) {
    double variance;
    if (means.empty()) {
      variance = static_cast<double>((*first)[static_cast<size_t>(i)]);
    } else {
      const Index row = matrices.row(i);
      variance = static_cast<double>((*first)[static_cast<size_t>(row)]) *
                 static_cast<double>((*second)[static_cast<size_t>(matrices.column(i))]) /
                 means[static_cast<size_t>(row / matrices.rows)];
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
