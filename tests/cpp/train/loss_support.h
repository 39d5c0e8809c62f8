#pragma once

#include "gradients.h"

/// Values of losses in tests.
namespace heed::test {

inline DoubleMatrix scalar(double x) { return DoubleMatrix::Constant(1, 1, x); }

/// The value of a loss of constants.
template <class Loss>
inline float valueOf(const Loss& loss) {
  Context context;
  train::Graph graph(context);
  return loss(graph).value()(0, 0);
}

inline train::Variable constant(train::Graph& graph, const RowMajorMatrix& m) {
  return graph.leaf(train::Matrix(window(m)));
}

}  // namespace heed::test
