#include "heed/train/losses.h"

#include <limits>
#include <numbers>

#include "gradients.h"

namespace heed::test {
namespace {

using train::Graph;
using train::Variable;
using namespace train::losses;

DoubleMatrix scalar(double x) { return DoubleMatrix::Constant(1, 1, x); }

/// The value of a loss of constants.
template <class Loss>
float valueOf(const Loss& loss) {
  Context context;
  Graph graph(context);
  return loss(graph).value()(0, 0);
}

Variable constant(Graph& graph, const RowMajorMatrix& m) { return graph.leaf(train::Matrix(window(m))); }

/// torch.nn.CrossEntropyLoss in double precision.
double crossEntropyOf(const DoubleMatrix& logits, const std::vector<int32_t>& labels,
                      const CrossEntropyOptions& options) {
  double sum = 0, total = 0;
  for (Index t = 0; t < logits.rows(); ++t) {
    const int32_t label = labels[static_cast<size_t>(t)];
    if (label == options.ignore_index) continue;
    const double highest = logits.row(t).maxCoeff();
    const double log_sum = highest + std::log((logits.row(t).array() - highest).exp().sum());
    const auto weight = [&](Index c) { return options.weight.empty() ? 1.0 : double(options.weight[size_t(c)]); };
    const double s = options.label_smoothing;
    double smooth = 0;
    for (Index c = 0; c < logits.cols(); ++c) smooth += weight(c) * (log_sum - logits(t, c));
    sum += (1 - s) * weight(label) * (log_sum - logits(t, label)) + s / double(logits.cols()) * smooth;
    total += weight(label);
  }
  return sum / total;
}

TEST(TrainCrossEntropy, EqualsPyTorchsFormula) {
  const std::vector<int32_t> labels{2, 0, -100, 6, 2};
  for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
    for (const bool weighted : {false, true}) {
      CrossEntropyOptions options{.label_smoothing = smoothing, .weight = {}};
      if (weighted) options.weight = {1, 0.5f, 2, 0, 1.5f, 1, 0.25f};
      expectGradients(
          {4 * randomMatrix(5, 7, 1)},
          [&](Graph& graph, const auto& x) { return crossEntropy(graph, x[0], labels, options); },
          [&](const auto& x) { return scalar(crossEntropyOf(x[0], labels, options)); });
    }
  }
  // Wide rows, like the logits of a vocabulary, and another ignore_index.
  const std::vector<int32_t> wide{129, 3, 0};
  const CrossEntropyOptions ignore{.ignore_index = 3, .weight = {}};
  expectGradients(
      {4 * randomMatrix(3, 130, 1)},
      [&](Graph& graph, const auto& x) { return crossEntropy(graph, x[0], wide, ignore); },
      [&](const auto& x) { return scalar(crossEntropyOf(x[0], wide, ignore)); });
}

TEST(TrainCrossEntropy, IsStableForLargeLogits) {
  const RowMajorMatrix logits = matrix({{1e4f, 0, -1e4f}, {-1e4f, -2e4f, 0}});
  EXPECT_EQ(valueOf([&](Graph& graph) { return crossEntropy(graph, constant(graph, logits), {0, 2}, {}); }), 0);
  EXPECT_EQ(valueOf([&](Graph& graph) { return crossEntropy(graph, constant(graph, logits), {1, 2}, {}); }), 5000);
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, logits);
  backward(graph, crossEntropy(graph, x, {1, 2}, {}));
  expectNear(gradientOf(x), matrix({{0.5f, -0.5f, 0}, {0, 0, 0}}));
}

TEST(TrainCrossEntropy, IsNaNWithoutGradientsIfEveryLabelIsIgnored) {
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, randomMatrix(2, 3, 1)), loss = crossEntropy(graph, x, {-100, -100}, {});
  EXPECT_TRUE(std::isnan(loss.value()(0, 0)));
  backward(graph, loss);
  expectSame(gradientOf(x), RowMajorMatrix::Zero(2, 3));
}

TEST(TrainCrossEntropy, BadArgumentsAreNamed) {
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, randomMatrix(2, 3, 1));
  expectError(ErrorCode::kInvalidArgument, "labels:", [&] { crossEntropy(graph, x, {0, 3}, {}); });
  expectError(ErrorCode::kInvalidArgument, "labels:", [&] { crossEntropy(graph, x, {-1, 0}, {}); });
  expectError(ErrorCode::kShapeMismatch, "labels:", [&] { crossEntropy(graph, x, {0}, {}); });
  expectError(ErrorCode::kShapeMismatch, "weight:", [&] { crossEntropy(graph, x, {0, 1}, {.weight = {1, 2}}); });
  expectError(ErrorCode::kInvalidArgument,
              "labelSmoothing:", [&] { crossEntropy(graph, x, {0, 1}, {.label_smoothing = 1.5f, .weight = {}}); });
}

TEST(TrainMse, EqualsPyTorchsFormula) {
  for (const auto& [rows, columns] : {std::array<Index, 2>{1, 1}, {3, 7}, {9, 130}}) {
    expectGradients(
        {randomMatrix(rows, columns, 1), randomMatrix(rows, columns, 2)},
        [](Graph& graph, const auto& x) { return mse(graph, x[0], x[1]); },
        [](const auto& x) { return scalar((x[0] - x[1]).squaredNorm() / double(x[0].size())); });
  }
}

TEST(TrainMse, KeepsTheDigitsOfManyElements) {
  const RowMajorMatrix x = RowMajorMatrix::Constant(1000, 1000, 0.1f), zero = RowMajorMatrix::Zero(1000, 1000);
  const float value = valueOf([&](Graph& graph) { return mse(graph, constant(graph, x), constant(graph, zero)); });
  EXPECT_NEAR(value, 0.01, 1e-9);
}

TEST(TrainBceWithLogits, EqualsPyTorchsFormula) {
  const auto formula = [](const BceOptions& options) {
    return [&options](const std::vector<DoubleMatrix>& x) {
      double sum = 0;
      for (Index t = 0; t < x[0].rows(); ++t) {
        for (Index c = 0; c < x[0].cols(); ++c) {
          const double p = 1 / (1 + std::exp(-x[0](t, c))), y = x[1](t, c);
          const double positive = options.pos_weight.empty() ? 1 : double(options.pos_weight[size_t(c)]);
          sum -= (options.weight.empty() ? 1 : double(options.weight[size_t(c)])) *
                 (positive * y * std::log(p) + (1 - y) * std::log1p(-p));
        }
      }
      return scalar(sum / double(x[0].size()));
    };
  };
  const std::vector<RowMajorMatrix> inputs{4 * randomMatrix(3, 5, 1), 0.5f * randomMatrix(3, 5, 2).array() + 0.5f};
  for (const BceOptions& options : {BceOptions{}, BceOptions{.weight = {1, 0.5f, 2, 0, 1}, .pos_weight = {}},
                                    BceOptions{.weight = {2, 1, 1, 0.5f, 3}, .pos_weight = {1, 3, 0.5f, 2, 0}}}) {
    expectGradients(
        inputs, [&](Graph& graph, const auto& x) { return bceWithLogits(graph, x[0], x[1], options); },
        formula(options));
  }
}

TEST(TrainBceWithLogits, IsStableForLargeLogits) {
  const RowMajorMatrix logits = matrix({{1000, -1000, 1000, -1000}}), target = matrix({{1, 0, 0, 1}});
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, logits), loss = bceWithLogits(graph, x, constant(graph, target));
  EXPECT_EQ(loss.value()(0, 0), 500);
  backward(graph, loss);
  expectNear(gradientOf(x), matrix({{0, 0, 0.25f, -0.25f}}));
}

TEST(TrainPoisson, EqualsPyTorchsFormula) {
  for (const bool full : {false, true}) {
    const auto stirling = [full](double y) {
      return full && y > 1 ? y * std::log(y) - y + 0.5 * std::log(2 * std::numbers::pi * y) : 0;
    };
    const RowMajorMatrix counts = 2 * randomMatrix(3, 5, 2).array() + 2.1f;
    expectGradients(
        {3 * randomMatrix(3, 5, 1), counts},
        [&](Graph& graph, const auto& x) { return poisson(graph, x[0], x[1], {.full = full}); },
        [&](const auto& x) {
          return scalar((x[0].array().exp() - x[0].array() * x[1].array() + x[1].unaryExpr(stirling).array()).mean());
        });
    expectGradients(
        {randomMatrix(3, 5, 1).array() + 1.5f, counts},
        [&](Graph& graph, const auto& x) {
          return poisson(graph, x[0], x[1], {.log_input = false, .full = full, .eps = 1e-3f});
        },
        [&](const auto& x) {
          return scalar(
              (x[0].array() - x[1].array() * (x[0].array() + double(1e-3f)).log() + x[1].unaryExpr(stirling).array())
                  .mean());
        });
  }
}

TEST(TrainPoisson, OverflowsToInfinityAsExpDoes) {
  const auto at = [](float x) {
    return valueOf(
        [x](Graph& graph) { return poisson(graph, constant(graph, matrix({{x}})), constant(graph, matrix({{0}}))); });
  };
  EXPECT_NEAR(at(88) / std::exp(88.0), 1, 1e-6);
  EXPECT_EQ(at(89), std::numeric_limits<float>::infinity());
  EXPECT_EQ(at(1e4f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(at(-1e4f), 0);
  EXPECT_TRUE(std::isnan(at(std::nanf(""))));
}

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

TEST(TrainLosses, BadShapesAreNamed) {
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, randomMatrix(2, 3, 1)), y = leaf(graph, randomMatrix(2, 4, 1)),
                 less = leaf(graph, randomMatrix(1, 3, 1));
  const auto mismatch = [](const char* start, const auto& call) {
    expectError(ErrorCode::kShapeMismatch, start, call);
  };
  mismatch("target:", [&] { mse(graph, x, y); });
  mismatch("target:", [&] { bceWithLogits(graph, x, y); });
  mismatch("weight:", [&] { bceWithLogits(graph, x, x, {.weight = {1}, .pos_weight = {}}); });
  mismatch("posWeight:", [&] { bceWithLogits(graph, x, x, {.weight = {}, .pos_weight = {1}}); });
  mismatch("target:", [&] { poisson(graph, x, y); });
  mismatch("b:", [&] { cosineEmbedding(graph, x, y, {1, 1}, 0); });
  mismatch("labels:", [&] { cosineEmbedding(graph, x, x, {1}, 0); });
  expectError(ErrorCode::kInvalidArgument, "labels:", [&] { cosineEmbedding(graph, x, x, {1, 0}, 0); });
  mismatch("positive:", [&] { triplet(graph, x, y, x, 1); });
  mismatch("negative:", [&] { triplet(graph, x, x, y, 1); });
  mismatch("b:", [&] { infoNCE(graph, x, y, 20, {}); });
  mismatch("b:", [&] { infoNCE(graph, x, less, 20, {}); });
  mismatch("groups:", [&] { infoNCE(graph, x, x, 20, {1}); });
  mismatch("labels:", [&] { supervisedContrastive(graph, x, {1}, 10); });
  mismatch("b:", [&] { coSENT(graph, x, y, {1, 2}, 20); });
  mismatch("labels:", [&] { coSENT(graph, x, x, {1}, 20); });
  expectError(ErrorCode::kInvalidArgument, "labels:", [&] { coSENT(graph, x, x, {1, INFINITY}, 20); });
}

}  // namespace
}  // namespace heed::test
