#include <limits>
#include <numbers>

#include "gradients.h"
#include "loss_support.h"

namespace heed::test {
namespace {

using train::Graph;
using train::Variable;

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
  expectError(ErrorCode::kShapeMismatch, "classWeights:", [&] { crossEntropy(graph, x, {0, 1}, {.weight = {1, 2}}); });
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
  mismatch("classWeights:", [&] { bceWithLogits(graph, x, x, {.weight = {1}, .pos_weight = {}}); });
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
