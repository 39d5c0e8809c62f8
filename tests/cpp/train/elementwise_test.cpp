#include <limits>

#include "gradients.h"
#include "heed/train/ops.h"

namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::Variable;

/// Sizes around those of vectors.
constexpr std::array<Index, 2> kSizes[] = {{1, 1}, {3, 7}, {2, 8}, {9, 13}};

TEST(TrainElementwise, GradientsEqualCentralDifferences) {
  for (const auto& [rows, columns] : kSizes) {
    const std::vector<RowMajorMatrix> two{randomMatrix(rows, columns, 1), randomMatrix(rows, columns, 2)};
    expectGradients(
        two, [](Graph& graph, const auto& x) { return add(graph, x[0], x[1]); },
        [](const auto& x) -> DoubleMatrix { return x[0] + x[1]; });
    expectGradients(
        two, [](Graph& graph, const auto& x) { return multiply(graph, x[0], x[1]); },
        [](const auto& x) -> DoubleMatrix { return x[0].cwiseProduct(x[1]); });
    expectGradients(
        {two[0]}, [](Graph& graph, const auto& x) { return scale(graph, x[0], -1.5f); },
        [](const auto& x) -> DoubleMatrix { return -1.5 * x[0]; });
  }
}

TEST(TrainElementwise, AnInputThatIsUsedTwiceGetsBothGradients) {
  const std::vector<RowMajorMatrix> one{randomMatrix(3, 9, 1)};
  expectGradients(
      one, [](Graph& graph, const auto& x) { return add(graph, x[0], x[0]); },
      [](const auto& x) -> DoubleMatrix { return 2 * x[0]; });
  expectGradients(
      one, [](Graph& graph, const auto& x) { return multiply(graph, x[0], x[0]); },
      [](const auto& x) -> DoubleMatrix { return x[0].cwiseProduct(x[0]); });
}

TEST(TrainElementwise, ShapesMustAgree) {
  Context context;
  Graph graph(context);
  const Variable a = leaf(graph, randomMatrix(2, 3, 1)), b = leaf(graph, randomMatrix(3, 2, 1));
  expectError(ErrorCode::kShapeMismatch, "b:", [&] { add(graph, a, b); });
  expectError(ErrorCode::kShapeMismatch, "b:", [&] { multiply(graph, a, b); });
}

TEST(TrainRowsAndColumns, ConcatenationsHaveTheGradientsOfTheirParts) {
  expectGradients(
      {randomMatrix(3, 7, 1), randomMatrix(3, 1, 2), randomMatrix(3, 9, 3)},
      [](Graph& graph, const auto& x) { return concatenateColumns(graph, x); },
      [](const auto& x) -> DoubleMatrix {
        DoubleMatrix y(3, 17);
        y << x[0], x[1], x[2];
        return y;
      });
  expectGradients(
      {randomMatrix(3, 5, 1)}, [](Graph& graph, const auto& x) { return concatenateColumns(graph, {x[0], x[0]}); },
      [](const auto& x) -> DoubleMatrix {
        DoubleMatrix y(3, 10);
        y << x[0], x[0];
        return y;
      });
}

TEST(TrainRowsAndColumns, SlicesAndGathersMoveGradientsBack) {
  expectGradients(
      {randomMatrix(3, 13, 1)}, [](Graph& graph, const auto& x) { return sliceColumns(graph, x[0], 2, 8); },
      [](const auto& x) -> DoubleMatrix { return x[0].middleCols(2, 8); });
  // Two slices of one matrix, which overlap.
  expectGradients(
      {randomMatrix(3, 13, 1)},
      [](Graph& graph, const auto& x) {
        return multiply(graph, sliceColumns(graph, x[0], 0, 9), sliceColumns(graph, x[0], 4, 9));
      },
      [](const auto& x) -> DoubleMatrix { return x[0].leftCols(9).cwiseProduct(x[0].rightCols(9)); });
  expectGradients(
      {randomMatrix(5, 9, 1)}, [](Graph& graph, const auto& x) { return gatherRows(graph, x[0], {4, 0, 4, 1, 4}); },
      [](const auto& x) -> DoubleMatrix {
        DoubleMatrix y(5, 9);
        y << x[0].row(4), x[0].row(0), x[0].row(4), x[0].row(1), x[0].row(4);
        return y;
      });
  expectGradients(
      {randomMatrix(6, 4, 1)}, [](Graph& graph, const auto& x) { return reshape(graph, x[0], 3, 8); },
      [](const auto& x) -> DoubleMatrix { return Eigen::Map<const DoubleMatrix>(x[0].data(), 3, 8); });
}

TEST(TrainRowsAndColumns, MeansAreOfEachSequence) {
  const Sequences sequences = Sequences::ofLengths({3, 0, 1, 5});
  expectGradients(
      {randomMatrix(9, 7, 1)},
      [&](Graph& graph, const auto& x) { return pool(graph, x[0], sequences, {}, Pooling::kMean); },
      [](const auto& x) -> DoubleMatrix {
        DoubleMatrix y = DoubleMatrix::Zero(4, 7);
        y.row(0) = x[0].topRows(3).colwise().mean();
        y.row(2) = x[0].row(3);
        y.row(3) = x[0].bottomRows(5).colwise().mean();
        return y;
      });
}

TEST(TrainRowsAndColumns, BadArgumentsAreNamed) {
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, randomMatrix(3, 4, 1)), y = leaf(graph, randomMatrix(2, 5, 1));
  expectError(ErrorCode::kInvalidArgument, "parts:", [&] { concatenateColumns(graph, {}); });
  expectError(ErrorCode::kShapeMismatch, "parts[1]:", [&] { concatenateColumns(graph, {x, y}); });
  expectError(ErrorCode::kInvalidArgument, "first:", [&] { sliceColumns(graph, x, -1, 2); });
  expectError(ErrorCode::kInvalidArgument, "count:", [&] { sliceColumns(graph, x, 2, 3); });
  expectError(ErrorCode::kInvalidArgument, "indices:", [&] { gatherRows(graph, x, {0, 3}); });
  expectError(ErrorCode::kInvalidArgument, "indices:", [&] { gatherRows(graph, x, {-1}); });
  expectError(ErrorCode::kShapeMismatch, "x:", [&] { reshape(graph, x, 5, 2); });
  expectError(ErrorCode::kShapeMismatch, "x:", [&] { pool(graph, x, Sequences::uniform(2, 2), {}, Pooling::kMean); });
}

TEST(TrainDropout, RepeatsTheDrawsOfInference) {
  // Keys, steps and rows beyond 32 bits, and rates at the limits.
  for (const Index width : {1, 13, 16, 130}) {
    for (const float p : {0.0f, 0.4f, 1.0f}) {
      for (const DropoutScaling scaling : {DropoutScaling::kInverted, DropoutScaling::kNone}) {
        const DropoutKey key{0x123456789abcdef0u, (uint64_t{5} << 32) + 3};
        const RowMajorMatrix x = randomMatrix(9, width, 1), cotangent = randomMatrix(9, width, 2);
        Context context;
        context.random.first_row = 70'000;
        Graph graph(context);
        const Variable input = leaf(graph, x);
        const Variable y = dropout(graph, input, {p, scaling}, key);
        RowMajorMatrix expected(9, width), gradient(9, width);
        heed::dropout(window(x), {p, scaling}, key, window(expected), 70'000);
        expectSame(y.value(), expected);
        // The backward pass may run for another part of a batch.
        context.random.first_row = 0;
        Backward::run(graph, y, window(cotangent));
        heed::dropout(window(cotangent), {p, scaling}, key, window(gradient), 70'000);
        expectSame(gradientOf(input), gradient);
        if (p == 1) EXPECT_EQ(gradient.cwiseAbs().maxCoeff(), 0);
      }
    }
  }
}

TEST(TrainDropout, RepeatsTheDrawsOfColumnsInAWholeRow) {
  for (const Index first : {0, 3, 8, 13}) {
    const DropoutKey key{7, 2};
    const RowMajorMatrix x = randomMatrix(2, 60, 1), cotangent = randomMatrix(2, 60 - first, 2);
    RowMajorMatrix expected(2, 60), part = x.rightCols(60 - first);
    heed::dropout(window(x), {.p = 0.4f}, key, window(expected));
    Context context;
    Graph graph(context);
    const Variable input = leaf(graph, part);
    const Variable y = dropout(graph, input, {.p = 0.4f}, key, first);
    expectSame(y.value(), RowMajorMatrix(expected.rightCols(60 - first)));
    Backward::run(graph, y, window(cotangent));
    const RowMajorMatrix kept = (y.value().array() != 0).cast<float>() / 0.6f;
    EXPECT_TRUE(gradientOf(input).isApprox(RowMajorMatrix(cotangent.array() * kept.array()), 1e-6f));
  }
}

TEST(TrainDropout, DropsWhatIsNotFinite) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix x = RowMajorMatrix::Constant(1, 64, std::numeric_limits<float>::infinity());
  const Variable y = dropout(graph, leaf(graph, x), {.p = 0.5f}, {1, 2});
  RowMajorMatrix expected(1, 64);
  heed::dropout(window(x), {.p = 0.5f}, {1, 2}, window(expected));
  expectSame(y.value(), expected);
  EXPECT_FALSE(y.value().array().isNaN().any());
}

}  // namespace
}  // namespace heed::test
