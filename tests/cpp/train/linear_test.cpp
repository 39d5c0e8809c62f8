#include "gradients.h"
#include "heed/train/ops.h"

namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::ParameterGradients;
using train::Variable;

TEST(TrainLinear, GradientsEqualCentralDifferences) {
  // Rows and widths around the sizes of row blocks and panels.
  for (const auto& [rows, in, out] : {std::array<Index, 3>{1, 1, 1}, {7, 9, 13}, {130, 8, 24}}) {
    Context context;
    Graph graph(context);
    Linear layer({.in_features = in, .out_features = out});
    fillRandomly(layer, 3);
    ParameterGradients gradients(layer);
    graph.add(gradients);
    const RowMajorMatrix x = randomMatrix(rows, in, 1), cotangent = randomMatrix(rows, out, 2);
    const Variable input = leaf(graph, x);
    const Variable y = train::linear(graph, layer, input);
    Inference inference;
    expectSame(y.value(), layer.forward(inference.e, valueOf(x)).values());
    Backward::run(graph, y, window(cotangent));

    const DoubleMatrix w = read(layer, "weight").cast<double>(), xd = x.cast<double>(), c = cotangent.cast<double>();
    expectNear(gradientOf(input), (c * w).cast<float>());
    expectNear(gradientOf(gradients, "weight"), (c.transpose() * xd).cast<float>());
    expectNear(gradientOf(gradients, "bias"), c.colwise().sum().transpose().cast<float>());
    const auto forward = [&](const DoubleMatrix& moved) -> DoubleMatrix { return moved * w.transpose(); };
    expectNear(gradientOf(input), numericalGradient(forward, xd, c).cast<float>());
  }
}

TEST(TrainLinear, GradientsOfManyRowsEqualTheFormulas) {
  // More rows and columns than the products take at a time.
  const Index rows = 1100, in = 72, out = 130;
  Context context;
  Graph graph(context);
  Linear layer({.in_features = in, .out_features = out});
  fillRandomly(layer, 3);
  ParameterGradients gradients(layer);
  graph.add(gradients);
  // Sums of about 1, because the tolerance has an absolute part.
  const RowMajorMatrix x = randomMatrix(rows, in, 1), cotangent = randomMatrix(rows, out, 2) / 16;
  const Variable input = leaf(graph, x);
  Backward::run(graph, train::linear(graph, layer, input), window(cotangent));
  const DoubleMatrix w = read(layer, "weight").cast<double>(), c = cotangent.cast<double>();
  expectNear(gradientOf(input), (c * w).cast<float>());
  expectNear(gradientOf(gradients, "weight"), (c.transpose() * x.cast<double>()).cast<float>());
  expectNear(gradientOf(gradients, "bias"), c.colwise().sum().transpose().cast<float>());
}

TEST(TrainLinear, FrozenParametersHaveNoGradient) {
  Context context;
  Graph graph(context);
  Linear layer({.in_features = 3, .out_features = 2});
  ParameterGradients gradients(layer);
  graph.add(gradients);
  gradients.setRequiresGradient(0, false);
  const RowMajorMatrix x = randomMatrix(4, 3, 1), cotangent = randomMatrix(4, 2, 2);
  const Variable y = train::linear(graph, layer, graph.leaf(train::Matrix(window(x))));
  Backward::run(graph, y, window(cotangent));
  EXPECT_FALSE(gradients.hasGradient(0));
  EXPECT_TRUE(gradients.hasGradient(1));
  gradients.setRequiresGradient(1, false);
  EXPECT_FALSE(train::linear(graph, layer, graph.leaf(train::Matrix(window(x)))).needsGradient());
}

}  // namespace
}  // namespace heed::test
