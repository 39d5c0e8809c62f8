#include "gradients.h"
#include "heed/train/ops.h"
#include "ops/reference.h"

namespace heed::test {
namespace {

using train::Graph;

TEST(TrainLinearFunction, GradientsEqualCentralDifferences) {
  for (const auto& [rows, in, out] : {std::array<Index, 3>{1, 1, 1}, {7, 9, 13}, {17, 8, 3}}) {
    expectGradients(
        {randomMatrix(rows, in, 1), randomMatrix(out, in, 2), randomMatrix(1, out, 3)},
        [](Graph& graph, const auto& x) { return linear(graph, x[0], x[1], x[2], Activation::kGelu); },
        [](const auto& x) -> DoubleMatrix { return reference::linear(x[0], x[1], x[2]).unaryExpr(&reference::gelu); });
    expectGradients(
        {randomMatrix(rows, in, 1), randomMatrix(out, in, 2)},
        [](Graph& graph, const auto& x) { return linear(graph, x[0], x[1], {}, Activation::kIdentity); },
        [](const auto& x) -> DoubleMatrix { return x[0] * x[1].transpose(); });
  }
}

TEST(TrainLinearFunction, BadShapesAreNamed) {
  Context context;
  Graph graph(context);
  const auto x = leaf(graph, randomMatrix(2, 3, 1)), weight = leaf(graph, randomMatrix(4, 3, 1));
  expectError(ErrorCode::kShapeMismatch,
              "weight:", [&] { linear(graph, x, leaf(graph, randomMatrix(4, 2, 1)), {}, Activation::kIdentity); });
  expectError(ErrorCode::kShapeMismatch,
              "bias:", [&] { linear(graph, x, weight, leaf(graph, randomMatrix(1, 3, 1)), Activation::kIdentity); });
}

}  // namespace
}  // namespace heed::test
