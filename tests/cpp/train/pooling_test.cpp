#include "heed/pooling.h"

#include <algorithm>
#include <cmath>

#include "gradients.h"
#include "heed/train/ops.h"

namespace heed::test {
namespace {

using train::Graph;

/// Pools each sequence to one row by the definitions in heed/pooling.h, without its first `skip` rows.
DoubleMatrix pooled(const DoubleMatrix& x, const Sequences& sequences, Pooling pooling, Index skip) {
  DoubleMatrix y = DoubleMatrix::Zero(sequences.count(), x.cols());
  for (Index n = 0; n < sequences.count(); ++n) {
    const Index all = sequences.length(n), skipped = std::min(skip, all), length = all - skipped;
    if (all == 0 || (length == 0 && pooling != Pooling::kCls)) continue;
    const DoubleMatrix rows = x.middleRows(sequences.begin(n) + skipped, length);
    const Eigen::VectorXd places = length > 0 ? Eigen::VectorXd(Eigen::VectorXd::LinSpaced(
                                                    length, static_cast<double>(skipped + 1), static_cast<double>(all)))
                                              : Eigen::VectorXd();
    switch (pooling) {
      case Pooling::kMean:
        y.row(n) = rows.colwise().mean();
        break;
      case Pooling::kCls:
        y.row(n) = x.row(sequences.begin(n));
        break;
      case Pooling::kLast:
        y.row(n) = rows.bottomRows(1);
        break;
      case Pooling::kMax:
        y.row(n) = rows.colwise().maxCoeff();
        break;
      case Pooling::kMeanSqrtLength:
        y.row(n) = rows.colwise().sum() / std::sqrt(static_cast<double>(length));
        break;
      case Pooling::kWeightedMean:
        y.row(n) = places.transpose() * rows / places.sum();
        break;
    }
  }
  return y;
}

TEST(TrainPooling, HasTheGradientsOfEachMode) {
  const Sequences sequences = Sequences::ofLengths({3, 0, 1, 5});
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kMax, Pooling::kMeanSqrtLength,
                                Pooling::kWeightedMean}) {
    for (const Index skip : {0, 2}) {
      SCOPED_TRACE(Shape({static_cast<Index>(pooling), skip}).toString());
      expectGradients(
          {randomMatrix(9, 7, 1)},
          [&](Graph& graph, const auto& x) {
            return train::pool(graph, x[0], sequences, skip > 0 ? std::vector<Index>(4, skip) : std::vector<Index>(),
                               pooling);
          },
          [&](const auto& x) { return pooled(x[0], sequences, pooling, skip); });
    }
  }
}

TEST(TrainPooling, TheFirstOfEqualMaximaGetsTheGradient) {
  Context context;
  Graph graph(context);
  const train::Variable x = leaf(graph, matrix({{1, 2}, {1, 0}, {0, 2}}));
  const train::Variable y = train::pool(graph, x, Sequences::uniform(1, 3), {}, Pooling::kMax);
  train::Backward::run(graph, y, window(matrix({{3, 4}})));
  expectSame(gradientOf(x), matrix({{3, 4}, {0, 0}, {0, 0}}));
}

TEST(TrainNormalize, HasTheGradientOfTheFormula) {
  expectGradients(
      {randomMatrix(4, 7, 1)}, [](Graph& graph, const auto& x) { return train::normalize(graph, x[0]); },
      [](const auto& x) -> DoubleMatrix { return x[0].rowwise().normalized(); });
  // A row of zeros remains zero; its gradient is that of the division by 1e-12.
  Context context;
  Graph graph(context);
  const train::Variable x = leaf(graph, RowMajorMatrix::Zero(1, 3));
  const train::Variable y = train::normalize(graph, x);
  expectSame(y.value(), RowMajorMatrix::Zero(1, 3));
  train::Backward::run(graph, y, window(matrix({{1, -2, 0}})));
  expectNear(gradientOf(x), matrix({{1e12f, -2e12f, 0}}));
}

TEST(TrainRowsAndColumns, PartsAreAddedAndRowsScattered) {
  expectGradients(
      {randomMatrix(3, 6, 1), randomMatrix(3, 2, 2)},
      [](Graph& graph, const auto& x) { return train::addColumns(graph, x[0], x[1], 3); },
      [](const auto& x) -> DoubleMatrix {
        DoubleMatrix y = x[0];
        y.middleCols(3, 2) += x[1];
        return y;
      });
  expectGradients(
      {randomMatrix(3, 4, 1)},
      [](Graph& graph, const auto& x) { return train::scatterRows(graph, x[0], {4, 0, 1}, 5); },
      [](const auto& x) -> DoubleMatrix {
        DoubleMatrix y = DoubleMatrix::Zero(5, 4);
        y.row(4) = x[0].row(0);
        y.topRows(2) = x[0].bottomRows(2);
        return y;
      });
  Context context;
  Graph graph(context);
  const train::Variable x = leaf(graph, randomMatrix(2, 3, 1)), part = leaf(graph, randomMatrix(2, 2, 2));
  expectError(ErrorCode::kInvalidArgument, "first:", [&] { train::addColumns(graph, x, part, 2); });
  expectError(ErrorCode::kShapeMismatch, "x:", [&] { train::scatterRows(graph, x, {0}, 4); });
  expectError(ErrorCode::kInvalidArgument, "indices:", [&] { train::scatterRows(graph, x, {0, 4}, 4); });
}

}  // namespace
}  // namespace heed::test
