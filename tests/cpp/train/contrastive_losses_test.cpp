#include "gradients.h"
#include "loss_support.h"

namespace heed::test {
namespace {

using train::Graph;
using train::Variable;

TEST(TrainCosineEmbedding, EqualsPyTorchsFormula) {
  const std::vector<float> labels{1, -1, -1, 1, -1};
  for (const float margin : {0.0f, -0.5f, 0.3f}) {
    expectGradients(
        {randomMatrix(5, 7, 1), randomMatrix(5, 7, 2)},
        [&](Graph& graph, const auto& x) { return cosineEmbedding(graph, x[0], x[1], labels, margin); },
        [&](const auto& x) {
          double sum = 0;
          for (Index t = 0; t < 5; ++t) {
            const double c = x[0].row(t).dot(x[1].row(t)) /
                             std::sqrt((x[0].row(t).squaredNorm() + 1e-12) * (x[1].row(t).squaredNorm() + 1e-12));
            sum += labels[size_t(t)] > 0 ? 1 - c : std::max(0.0, c - double(margin));
          }
          return scalar(sum / 5);
        });
  }
}

TEST(TrainCosineEmbedding, ZeroRowsHaveFiniteGradients) {
  Context context;
  Graph graph(context);
  const Variable a = leaf(graph, RowMajorMatrix::Zero(1, 3)), b = leaf(graph, RowMajorMatrix::Zero(1, 3));
  const Variable loss = cosineEmbedding(graph, a, b, {1}, 0);
  EXPECT_EQ(loss.value()(0, 0), 1);
  backward(graph, loss);
  expectSame(gradientOf(a), RowMajorMatrix::Zero(1, 3));
}

TEST(TrainTriplet, EqualsPyTorchsFormula) {
  for (const float margin : {1.0f, 0.1f}) {
    // With the smaller margin, some rows have no loss.
    expectGradients(
        {randomMatrix(9, 7, 1), randomMatrix(9, 7, 2), randomMatrix(9, 7, 3)},
        [&](Graph& graph, const auto& x) { return triplet(graph, x[0], x[1], x[2], margin); },
        [&](const auto& x) {
          double sum = 0;
          for (Index t = 0; t < 9; ++t) {
            const double positive = ((x[0] - x[1]).row(t).array() + 1e-6).matrix().norm();
            const double negative = ((x[0] - x[2]).row(t).array() + 1e-6).matrix().norm();
            sum += std::max(0.0, positive - negative + double(margin));
          }
          return scalar(sum / 9);
        });
  }
}

TEST(TrainTriplet, EqualVectorsHaveFiniteGradients) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix x = randomMatrix(2, 3, 1);
  const Variable a = leaf(graph, x), p = leaf(graph, x), n = leaf(graph, x);
  const Variable loss = triplet(graph, a, p, n, 1);
  EXPECT_NEAR(loss.value()(0, 0), 1, 1e-6);
  backward(graph, loss);
  EXPECT_TRUE(gradientOf(p).allFinite());
  expectNear(gradientOf(a), RowMajorMatrix::Zero(2, 3));
}

/// The cross entropy of scaled cosines. `skipped(i, j)`: whether pair j is not a negative of i.
template <class Skipped>
double infoNceOf(const DoubleMatrix& a, const DoubleMatrix& b, double scale, const Skipped& skipped) {
  double sum = 0;
  for (Index i = 0; i < a.rows(); ++i) {
    const auto score = [&](Index j) { return scale * a.row(i).normalized().dot(b.row(j).normalized()); };
    double total = 0;
    for (Index j = 0; j < b.rows(); ++j) {
      if (j == i || !skipped(i, j)) total += std::exp(score(j));
    }
    sum += std::log(total) - score(i);
  }
  return sum / double(a.rows());
}

TEST(TrainInfoNce, EqualsItsFormula) {
  for (const auto& [rows, width] : {std::array<Index, 2>{1, 1}, {2, 3}, {9, 13}}) {
    expectGradients(
        {randomMatrix(rows, width, 1), randomMatrix(rows, width, 2)},
        [](Graph& graph, const auto& x) { return infoNCE(graph, x[0], x[1], 5, {}); },
        [](const auto& x) { return scalar(infoNceOf(x[0], x[1], 5, [](Index, Index) { return false; })); });
  }
  // Further rows of b, such as hard negatives.
  expectGradients(
      {randomMatrix(3, 7, 1), randomMatrix(8, 7, 2)},
      [](Graph& graph, const auto& x) { return infoNCE(graph, x[0], x[1], 20, {}); },
      [](const auto& x) { return scalar(infoNceOf(x[0], x[1], 20, [](Index, Index) { return false; })); });
}

TEST(TrainInfoNce, PairsOfOneGroupAreNotNegatives) {
  const std::vector<int32_t> groups{7, 3, 7, 5, 3};
  expectGradients(
      {randomMatrix(5, 7, 1), randomMatrix(5, 7, 2)},
      [&](Graph& graph, const auto& x) { return infoNCE(graph, x[0], x[1], 20, groups); },
      [&](const auto& x) {
        return scalar(
            infoNceOf(x[0], x[1], 20, [&](Index i, Index j) { return groups[size_t(i)] == groups[size_t(j)]; }));
      });
}

TEST(TrainInfoNce, FurtherRowsOfOneGroupAreNotNegatives) {
  const std::vector<int32_t> groups{7, 3, 7, 5, 3, 9};
  expectGradients(
      {randomMatrix(3, 7, 1), randomMatrix(6, 7, 2)},
      [&](Graph& graph, const auto& x) { return infoNCE(graph, x[0], x[1], 20, groups); },
      [&](const auto& x) {
        return scalar(
            infoNceOf(x[0], x[1], 20, [&](Index i, Index j) { return groups[size_t(i)] == groups[size_t(j)]; }));
      });
}

TEST(TrainInfoNce, EqualPairsAreNotNegatives) {
  RowMajorMatrix a = randomMatrix(4, 7, 1), b = randomMatrix(4, 7, 2);
  a.row(2) = a.row(0);
  b.row(2) = b.row(0);
  a.row(3) = a.row(1);  // a negative nevertheless, because its b differs
  const auto value =
      valueOf([&](Graph& graph) { return infoNCE(graph, constant(graph, a), constant(graph, b), 1, {}); });
  const auto equal = [](Index i, Index j) { return i + j == 2 && i != j; };
  EXPECT_NEAR(value, infoNceOf(toDouble(a), toDouble(b), 1, equal), 1e-5);
  EXPECT_GT(std::abs(value - infoNceOf(toDouble(a), toDouble(b), 1, [](Index, Index) { return false; })), 1e-2);
}

TEST(TrainInfoNce, ZeroRowsHaveFiniteGradients) {
  Context context;
  Graph graph(context);
  RowMajorMatrix a = randomMatrix(3, 7, 1);
  a.row(1).setZero();
  const Variable x = leaf(graph, a), y = leaf(graph, randomMatrix(3, 7, 2));
  backward(graph, infoNCE(graph, x, y, 20, {}));
  EXPECT_TRUE(gradientOf(x).allFinite());
  EXPECT_TRUE(gradientOf(y).allFinite());
}

/// Khosla et al. 2020, equation 2, in double precision.
double supervisedContrastiveOf(const DoubleMatrix& x, const std::vector<int32_t>& labels, double scale) {
  double sum = 0, anchors = 0;
  for (Index i = 0; i < x.rows(); ++i) {
    const auto score = [&](Index j) { return scale * x.row(i).normalized().dot(x.row(j).normalized()); };
    double total = 0, similarity = 0, positives = 0;
    for (Index j = 0; j < x.rows(); ++j) {
      if (j == i) continue;
      total += std::exp(score(j));
      if (labels[size_t(j)] != labels[size_t(i)]) continue;
      similarity += score(j);
      ++positives;
    }
    if (positives == 0) continue;
    sum += std::log(total) - similarity / positives;
    ++anchors;
  }
  return sum / anchors;
}

TEST(TrainSupervisedContrastive, EqualsItsFormula) {
  for (const std::vector<int32_t>& labels : {std::vector<int32_t>{4, 4}, {1, 2, 1}, {0, 1, 2, 0, 1, 0, 5, 0, 2}}) {
    expectGradients(
        {randomMatrix(static_cast<Index>(labels.size()), 13, 1)},
        [&](Graph& graph, const auto& x) { return supervisedContrastive(graph, x[0], labels, 5); },
        [&](const auto& x) { return scalar(supervisedContrastiveOf(x[0], labels, 5)); });
  }
}

TEST(TrainSupervisedContrastive, IsZeroWithoutPositives) {
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, randomMatrix(3, 7, 1));
  const Variable loss = supervisedContrastive(graph, x, {0, 1, 2}, 10);
  EXPECT_EQ(loss.value()(0, 0), 0);
  backward(graph, loss);
  expectNear(gradientOf(x), RowMajorMatrix::Zero(3, 7));
}

TEST(TrainSupervisedContrastive, ZeroRowsHaveFiniteGradients) {
  Context context;
  Graph graph(context);
  RowMajorMatrix a = randomMatrix(3, 7, 1);
  a.row(1).setZero();
  const Variable x = leaf(graph, a);
  backward(graph, supervisedContrastive(graph, x, {0, 0, 1}, 10));
  EXPECT_TRUE(gradientOf(x).allFinite());
}

TEST(TrainCosent, EqualsItsFormula) {
  for (const std::vector<float>& labels : {std::vector<float>{1, 0}, {0.5f, 0.5f, 0.5f}, {1, 3, 2, 3, 0, -1, 2}}) {
    const auto count = static_cast<Index>(labels.size());
    expectGradients(
        {randomMatrix(count, 13, 1), randomMatrix(count, 13, 2)},
        [&](Graph& graph, const auto& x) { return coSENT(graph, x[0], x[1], labels, 5); },
        [&](const auto& x) {
          const auto score = [&](Index i) { return 5 * x[0].row(i).normalized().dot(x[1].row(i).normalized()); };
          double sum = 1;
          for (Index i = 0; i < count; ++i) {
            for (Index j = 0; j < count; ++j) {
              if (labels[size_t(i)] < labels[size_t(j)]) sum += std::exp(score(i) - score(j));
            }
          }
          return scalar(std::log(sum));
        });
  }
}

}  // namespace
}  // namespace heed::test
