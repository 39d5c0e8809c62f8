#pragma once

#include <Eigen/Core>
#include <functional>

#include "heed/train/graph.h"
#include "support.h"

/// Gradients against central differences of the formulas in double precision (ops/reference.h).
namespace heed::test {

using DoubleMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// d(sum(cotangent * f(x))) / dx by central differences, for f in double precision.
DoubleMatrix numericalGradient(const std::function<DoubleMatrix(const DoubleMatrix&)>& f, const DoubleMatrix& x,
                               const DoubleMatrix& cotangent);

/// The gradient that a backward pass left in a leaf.
RowMajorMatrix gradientOf(const train::Variable& leaf);
RowMajorMatrix gradientOf(const train::ParameterGradients& gradients, const std::string& name);

/// A leaf that needs a gradient, with the values of `m`.
train::Variable leaf(train::Graph& graph, const RowMajorMatrix& m);

/// Runs a backward pass from a loss.
void backward(train::Graph& graph, const train::Variable& loss);

DoubleMatrix toDouble(const RowMajorMatrix& m);

/// A recorded operation, and its formula.
using Operation = std::function<train::Variable(train::Graph&, const std::vector<train::Variable>&)>;
using Formula = std::function<DoubleMatrix(const std::vector<DoubleMatrix>&)>;

/// Expects the operation's value to equal its formula's, and its gradients with respect to each input to equal central
/// differences: if all inputs or only one needs a gradient, and, doubled, after a second backward pass.
void expectGradients(const std::vector<RowMajorMatrix>& inputs, const Operation& operation, const Formula& formula,
                     uint64_t seed = 99);

}  // namespace heed::test
