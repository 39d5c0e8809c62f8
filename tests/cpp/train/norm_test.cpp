#include "gradients.h"
#include "heed/train/ops.h"
#include "ops/reference.h"

namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::ParameterGradients;
using train::Variable;

TEST(TrainSoftmax, GradientsEqualCentralDifferences) {
  for (const Index width : {1, 7, 8, 9, 13, 130}) {
    expectGradients(
        {3 * randomMatrix(3, width, 1)}, [](Graph& graph, const auto& x) { return softmax(graph, x[0]); },
        [](const auto& x) { return reference::softmax(x[0]); });
  }
}

TEST(TrainSoftmax, GradientsOfARowSumToZero) {
  Context context;
  Graph graph(context);
  RowMajorMatrix x = 3 * randomMatrix(5, 130, 1);
  x.row(2).setConstant(-std::numeric_limits<float>::infinity());  // like a query whose keys are all masked
  const RowMajorMatrix cotangent = randomMatrix(5, 130, 2);
  const Variable input = leaf(graph, x);
  Backward::run(graph, softmax(graph, input), window(cotangent));
  const RowMajorMatrix gradient = gradientOf(input);
  for (Index t = 0; t < 5; ++t) EXPECT_NEAR(gradient.row(t).sum(), 0, 1e-6);
  EXPECT_GT(gradient.row(0).cwiseAbs().maxCoeff(), 1e-3);
  EXPECT_EQ(gradient.row(2).cwiseAbs().maxCoeff(), 0);
}

TEST(TrainLayerNorm, GradientsEqualCentralDifferences) {
  for (const auto& [rows, width] : {std::array<Index, 2>{1, 2}, {3, 7}, {9, 8}, {70, 13}, {2, 130}}) {
    expectGradients(
        {randomMatrix(rows, width, 1), randomMatrix(1, width, 2), randomMatrix(1, width, 3)},
        [](Graph& graph, const auto& x) { return layerNorm(graph, x[0], x[1], x[2], 1e-5f); },
        [](const auto& x) -> DoubleMatrix { return reference::layerNorm(x[0], x[1], x[2], 1e-5); });
    expectGradients(
        {randomMatrix(rows, width, 1)},
        [](Graph& graph, const auto& x) { return layerNorm(graph, x[0], {}, {}, 1e-5f); },
        [](const auto& x) -> DoubleMatrix {
          return reference::layerNorm(x[0], reference::RowVector::Ones(x[0].cols()),
                                      reference::RowVector::Zero(x[0].cols()), 1e-5);
        });
  }
}

TEST(TrainLayerNorm, ALayersGradientsAreThoseOfTheFunction) {
  const Index rows = 37, width = 13;
  const RowMajorMatrix x = randomMatrix(rows, width, 1), cotangent = randomMatrix(rows, width, 2);
  LayerNorm layer({.normalized_shape = width});
  fillRandomly(layer, 3);
  ParameterGradients gradients(layer);
  Context context;
  Graph graph(context);
  graph.add(gradients);
  const Variable input = leaf(graph, x), y = layerNorm(graph, layer, input);
  RowMajorMatrix expected(rows, width);
  layer.forward(window(x), window(expected));
  expectSame(y.value(), expected);
  Backward::run(graph, y, window(cotangent));

  const Variable other = leaf(graph, x), weight = leaf(graph, read(layer, "weight").transpose()),
                 bias = leaf(graph, read(layer, "bias").transpose());
  Backward::run(graph, layerNorm(graph, other, weight, bias, layer.options().eps), window(cotangent));
  expectSame(gradientOf(input), gradientOf(other));
  expectSame(gradientOf(gradients, "weight"), gradientOf(weight).transpose());
  expectSame(gradientOf(gradients, "bias"), gradientOf(bias).transpose());
}

TEST(TrainRmsNorm, GradientsEqualCentralDifferences) {
  for (const float offset : {0.0f, 1.0f}) {
    for (const auto& [rows, heads, width] : {std::array<Index, 3>{1, 1, 2}, {3, 2, 7}, {37, 1, 13}, {5, 3, 8}}) {
      LayerNorm layer({.normalized_shape = width, .eps = 1e-6f, .rms = true, .weight_offset = offset});
      fillRandomly(layer, 3);
      ParameterGradients gradients(layer);
      Context context;
      Graph graph(context);
      graph.add(gradients);
      const RowMajorMatrix x = randomMatrix(rows, heads * width, 1), cotangent = randomMatrix(rows, heads * width, 2);
      const Variable input = leaf(graph, x), y = layerNorm(graph, layer, input);
      const RowMajorMatrix weight = read(layer, "weight").transpose();
      const auto formula = [&](const DoubleMatrix& in, const DoubleMatrix& gamma) {
        DoubleMatrix out(rows, heads * width);
        for (Index h = 0; h < heads; ++h)
          out.middleCols(h * width, width) = reference::rmsNorm(
              in.middleCols(h * width, width), reference::RowVector(gamma.array() + double(offset)), 1e-6);
        return out;
      };
      const DoubleMatrix wide = toDouble(x), wide_weight = toDouble(weight), seed = toDouble(cotangent);
      expectNear(y.value(), formula(wide, wide_weight).cast<float>());
      Backward::run(graph, y, window(cotangent));
      const auto by_x = [&](const DoubleMatrix& moved) { return formula(moved, wide_weight); };
      const auto by_weight = [&](const DoubleMatrix& moved) { return formula(wide, moved); };
      expectNear(gradientOf(input), numericalGradient(by_x, wide, seed).cast<float>());
      expectNear(gradientOf(gradients, "weight").transpose(),
                 numericalGradient(by_weight, wide_weight, seed).cast<float>());
    }
  }
}

TEST(TrainRmsNorm, GradientsWithoutWeightsEqualCentralDifferences) {
  LayerNorm layer({.normalized_shape = 7, .elementwise_affine = false, .rms = true, .weight_offset = 1});
  expectGradients(
      {randomMatrix(3, 7, 1)}, [&](Graph& graph, const auto& x) { return layerNorm(graph, layer, x[0]); },
      [](const auto& x) -> DoubleMatrix {
        return reference::rmsNorm(x[0], reference::RowVector::Ones(x[0].cols()), 1e-5);
      });
}

TEST(TrainLayerNorm, GradientsAreOrthogonalToOnesAndToTheNormalizedRow) {
  // Neither a shift nor a scale of the row changes its norm.
  const Index width = 130;
  Context context;
  Graph graph(context);
  const RowMajorMatrix x = randomMatrix(4, width, 1), cotangent = randomMatrix(4, width, 2);
  const Variable input = leaf(graph, x), y = layerNorm(graph, input, {}, {}, 0);
  Backward::run(graph, y, window(cotangent));
  const RowMajorMatrix gradient = gradientOf(input);
  for (Index t = 0; t < 4; ++t) {
    EXPECT_NEAR(gradient.row(t).sum(), 0, 1e-4);
    EXPECT_NEAR(gradient.row(t).dot(y.value().row(t)), 0, 1e-4);
  }
}

TEST(TrainLayerNorm, GradientsOfConstantRowsAreFinite) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix x = RowMajorMatrix::Constant(2, 9, 0.1f), cotangent = randomMatrix(2, 9, 2);
  const Variable input = leaf(graph, x);
  Backward::run(graph, layerNorm(graph, input, {}, {}, 1e-5f), window(cotangent));
  // n = 0, so that dx = (dy - mean(dy)) / sqrt(eps).
  const RowMajorMatrix centred = cotangent.colwise() - cotangent.rowwise().mean();
  expectNear(gradientOf(input), centred / std::sqrt(1e-5f));
}

TEST(TrainLayerNorm, BadArgumentsAreNamed) {
  Context context;
  Graph graph(context);
  const Variable x = leaf(graph, randomMatrix(2, 3, 1)), wrong = leaf(graph, randomMatrix(1, 4, 1));
  expectError(ErrorCode::kShapeMismatch, "weight:", [&] { layerNorm(graph, x, wrong, {}, 1e-5f); });
  expectError(ErrorCode::kShapeMismatch, "bias:", [&] { layerNorm(graph, x, {}, wrong, 1e-5f); });
  expectError(ErrorCode::kInvalidArgument, "eps:", [&] { layerNorm(graph, x, {}, {}, -1); });
  LayerNorm layer({.normalized_shape = 4});
  expectError(ErrorCode::kShapeMismatch, "x:", [&] { layerNorm(graph, layer, x); });
}

/// Batch norm with the statistics of the batch.
DoubleMatrix batchNormed(const DoubleMatrix& x, const DoubleMatrix& weight, const DoubleMatrix& bias, double eps) {
  return reference::layerNorm(x.transpose(), reference::RowVector::Ones(x.rows()), reference::RowVector::Zero(x.rows()),
                              eps)
                 .transpose()
                 .array()
                 .rowwise() *
             weight.row(0).array() +
         bias.row(0).replicate(x.rows(), 1).array();
}

TEST(TrainBatchNorm, TrainsWithTheStatisticsOfTheBatch) {
  for (const auto& [rows, width] : {std::array<Index, 2>{2, 1}, {7, 9}, {130, 5}}) {
    const RowMajorMatrix x = randomMatrix(rows, width, 1).array() + 3, cotangent = randomMatrix(rows, width, 2);
    BatchNorm layer({.num_features = width});
    fillRandomly(layer, 3);
    write(layer, "running_var", RowMajorMatrix::Constant(width, 1, 2));
    layer.setTraining(true);
    const RowMajorMatrix mean_before = read(layer, "running_mean");
    ParameterGradients gradients(layer);
    Context context;
    Graph graph(context);
    graph.add(gradients);
    const Variable input = leaf(graph, x), y = batchNorm(graph, layer, input);
    const DoubleMatrix weight = toDouble(read(layer, "weight").transpose()),
                       bias = toDouble(read(layer, "bias").transpose()), exact = toDouble(x);
    expectNear(y.value(), batchNormed(exact, weight, bias, 1e-5).cast<float>());

    // PyTorch's moving averages, the variance with 1 / (T - 1).
    const DoubleMatrix mean = exact.colwise().mean().transpose();
    const DoubleMatrix variance =
        (exact.rowwise() - exact.colwise().mean()).colwise().squaredNorm().transpose() / double(rows - 1);
    expectNear(read(layer, "running_mean"), (0.9 * toDouble(mean_before) + 0.1 * mean).cast<float>());
    expectNear(read(layer, "running_var"), (0.9 * 2 + 0.1 * variance.array()).cast<float>().matrix());

    Backward::run(graph, y, window(cotangent));
    const DoubleMatrix c = toDouble(cotangent);
    const auto of_x = [&](const DoubleMatrix& m) { return batchNormed(m, weight, bias, 1e-5); };
    const auto of_weight = [&](const DoubleMatrix& m) { return batchNormed(exact, m, bias, 1e-5); };
    expectNear(gradientOf(input), numericalGradient(of_x, exact, c).cast<float>());
    expectNear(gradientOf(gradients, "weight"), numericalGradient(of_weight, weight, c).transpose().cast<float>());
    expectNear(gradientOf(gradients, "bias"), c.colwise().sum().transpose().cast<float>());
  }
}

TEST(TrainBatchNorm, EvaluatesWithTheMovingAverages) {
  const Index rows = 7, width = 9;
  const RowMajorMatrix x = randomMatrix(rows, width, 1), cotangent = randomMatrix(rows, width, 2);
  BatchNorm layer({.num_features = width});
  fillRandomly(layer, 3);
  write(layer, "running_var", randomMatrix(width, 1, 9).array() + 2);
  ParameterGradients gradients(layer);
  Context context;
  Graph graph(context);
  graph.add(gradients);
  const Variable input = leaf(graph, x), y = batchNorm(graph, layer, input);
  RowMajorMatrix expected(rows, width);
  layer.forward(window(x), window(expected));
  expectSame(y.value(), expected);
  // A later pass in training mode changes the averages, but not this pass.
  const RowMajorMatrix mean = read(layer, "running_mean"), variance = read(layer, "running_var");
  layer.setTraining(true);
  batchNorm(graph, layer, input);
  Backward::run(graph, y, window(cotangent));

  const Eigen::ArrayXXd scale = (toDouble(variance).array() + 1e-5).rsqrt().transpose().replicate(rows, 1);
  const Eigen::ArrayXXd normed = (toDouble(x) - toDouble(mean).transpose().replicate(rows, 1)).array() * scale;
  const Eigen::ArrayXXd c = toDouble(cotangent).array();
  const Eigen::ArrayXXd weight = toDouble(read(layer, "weight")).transpose().replicate(rows, 1).array();
  expectNear(gradientOf(input), (c * weight * scale).cast<float>().matrix());
  expectNear(gradientOf(gradients, "weight"), (c * normed).colwise().sum().transpose().cast<float>().matrix());
  expectNear(gradientOf(gradients, "bias"), c.colwise().sum().transpose().cast<float>().matrix());
}

TEST(TrainBatchNorm, RefusesOneRowInTrainingMode) {
  Context context;
  Graph graph(context);
  BatchNorm layer({.num_features = 3});
  layer.setTraining(true);
  expectError(ErrorCode::kShapeMismatch, "x:", [&] { batchNorm(graph, layer, leaf(graph, randomMatrix(1, 3, 1))); });
  EXPECT_EQ(read(layer, "running_var")(0, 0), 1);
  layer.setTraining(false);
  EXPECT_EQ(batchNorm(graph, layer, leaf(graph, randomMatrix(1, 3, 1))).rows(), 1);
}

}  // namespace
}  // namespace heed::test
