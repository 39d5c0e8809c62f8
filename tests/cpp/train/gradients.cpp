#include "gradients.h"

namespace heed::test {

DoubleMatrix numericalGradient(const std::function<DoubleMatrix(const DoubleMatrix&)>& f, const DoubleMatrix& x,
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

RowMajorMatrix gradientOf(const train::Variable& leaf) { return leaf.node()->gradient.values(); }

RowMajorMatrix gradientOf(const train::ParameterGradients& gradients, const std::string& name) {
  for (size_t i = 0; i < gradients.parameters().size(); ++i) {
    const Parameter& p = gradients.parameters()[i];
    if (p.name != name) continue;
    RowMajorMatrix values(p.shape[0], p.rowSize());
    gradients.read(i, 0, p.shape[0], values.data());
    return values;
  }
  throw std::out_of_range("no parameter " + name);
}

train::Variable leaf(train::Graph& graph, const RowMajorMatrix& m) {
  return graph.leaf(train::Matrix(window(m)), true);
}

void backward(train::Graph& graph, const train::Variable& loss) {
  const RowMajorMatrix one = RowMajorMatrix::Ones(1, 1);
  train::Backward::run(graph, loss, window(one));
}

DoubleMatrix toDouble(const RowMajorMatrix& m) { return m.cast<double>(); }

void expectGradients(const std::vector<RowMajorMatrix>& inputs, const Operation& operation, const Formula& formula,
                     uint64_t seed) {
  std::vector<DoubleMatrix> exact;
  for (const RowMajorMatrix& input : inputs) exact.push_back(toDouble(input));
  const DoubleMatrix y = formula(exact);
  const RowMajorMatrix cotangent = randomMatrix(y.rows(), y.cols(), seed);
  std::vector<RowMajorMatrix> expected;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto moved = [&](const DoubleMatrix& x) {
      std::vector<DoubleMatrix> all = exact;
      all[i] = x;
      return formula(all);
    };
    expected.emplace_back(numericalGradient(moved, exact[i], toDouble(cotangent)).cast<float>());
  }
  // `only`: the only input that needs a gradient; inputs.size(): all do.
  for (size_t only = 0; only <= inputs.size(); ++only) {
    SCOPED_TRACE("input " + std::to_string(only));
    Context context;
    train::Graph graph(context);
    std::vector<train::Variable> leaves;
    for (size_t i = 0; i < inputs.size(); ++i)
      leaves.push_back(graph.leaf(train::Matrix(window(inputs[i])), only == inputs.size() || only == i));
    const train::Variable result = operation(graph, leaves);
    expectNear(result.value(), y.cast<float>());
    for (int pass = 1; pass <= 2; ++pass) {
      train::Backward::run(graph, result, window(cotangent));
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (leaves[i].needsGradient()) expectNear(gradientOf(leaves[i]), static_cast<float>(pass) * expected[i]);
      }
    }
  }
}

}  // namespace heed::test
