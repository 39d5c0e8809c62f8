#pragma once

#include <Eigen/Core>
#include <functional>

#include "heed/train/graph.h"
#include "support.h"

/// Gradients against central differences of the formulas in double precision (ops/reference.h).
namespace heed::test {

using DoubleMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// d(sum(cotangent * f(x))) / dx by central differences, for f in double precision.
inline DoubleMatrix numericalGradient(const std::function<DoubleMatrix(const DoubleMatrix&)>& f, const DoubleMatrix& x,
                                      const DoubleMatrix& cotangent) {
  constexpr double kStep = 1e-5;
  DoubleMatrix gradient(x.rows(), x.cols()), moved = x;
  for (Index i = 0; i < x.size(); ++i) {
    moved.data()[i] = x.data()[i] + kStep;
    const double above = f(moved).cwiseProduct(cotangent).sum();
    moved.data()[i] = x.data()[i] - kStep;
    const double below = f(moved).cwiseProduct(cotangent).sum();
    moved.data()[i] = x.data()[i];
    gradient.data()[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

/// The gradient that a backward pass left in a leaf.
inline RowMajorMatrix gradientOf(const train::Variable& leaf) { return leaf.node()->gradient.values(); }
inline RowMajorMatrix gradientOf(const train::ParameterGradients& gradients, const std::string& name) {
  for (size_t i = 0; i < gradients.parameters().size(); ++i) {
    const Parameter& p = gradients.parameters()[i];
    if (p.name != name) continue;
    RowMajorMatrix values(p.shape[0], p.rowSize());
    gradients.read(i, 0, p.shape[0], values.data());
    return values;
  }
  throw std::out_of_range("no parameter " + name);
}

/// A leaf that needs a gradient, with the values of `m`.
inline train::Variable leaf(train::Graph& graph, const RowMajorMatrix& m) {
  return graph.leaf(train::Matrix(window(m)), true);
}

}  // namespace heed::test
