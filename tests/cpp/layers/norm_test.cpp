#include "heed/norm.h"

#include <cmath>
#include <limits>

#include "ops/reference.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

RowMajorMatrix normed(const RowMajorMatrix& x, float eps = 1e-5f) {
  RowMajorMatrix y(x.rows(), x.cols());
  layerNorm(window(x), nullptr, nullptr, eps, window(y));
  return y;
}

TEST(LayerNorm, MatchesHandComputedValues) {
  // Mean 2, variance 2/3 (divided by E, not E - 1).
  const float z = std::sqrt(1.5f);
  expectNear(normed(matrix({{1, 2, 3}}), 0), matrix({{-z, 0, z}}));
}

TEST(LayerNorm, MatchesTheFormulaAtEveryWidth) {
  for (Index width = 1; width <= 37; ++width) {
    const RowMajorMatrix x = 10 * randomMatrix(3, width, 1), gamma = randomMatrix(1, width, 2),
                         delta = randomMatrix(1, width, 3);
    LayerNorm norm({.normalized_shape = width});
    write(norm, "weight", gamma);
    write(norm, "bias", delta);
    RowMajorMatrix y(3, width);
    norm.forward(window(x), window(y));
    expectNear(y,
               reference::layerNorm(x.cast<double>(), gamma.cast<double>(), delta.cast<double>(), 1e-5).cast<float>());
  }
}

TEST(LayerNorm, ConstantRowsGiveTheBias) {
  expectSame(normed(RowMajorMatrix::Constant(2, 7, 3.7f)), RowMajorMatrix::Zero(2, 7));
}

TEST(LayerNorm, StaysAccurateForLargeMeans) {
  const RowMajorMatrix x = randomMatrix(1, 64, 1);
  const RowMajorMatrix y = normed(((x.array() * 64).round() / 64 + 4096).matrix()),
                       expected = normed(((x.array() * 64).round() / 64).matrix());
  expectNear(y, expected);
}

TEST(LayerNorm, ResultDoesNotDependOnTheRowsAddress) {
  const RowMajorMatrix x = randomMatrix(9, 7, 1);
  const RowMajorMatrix all = normed(x);
  for (Index i = 0; i < 9; ++i) expectSame(normed(x.row(i)), all.row(i));
}

TEST(LayerNorm, WorksInPlace) {
  RowMajorMatrix x = randomMatrix(3, 11, 1);
  const RowMajorMatrix expected = normed(x);
  layerNorm(window(std::as_const(x)), nullptr, nullptr, 1e-5f, window(x));
  expectSame(x, expected);
}

TEST(LayerNorm, HasTheRequestedParameters) {
  LayerNorm both({.normalized_shape = 3}), weight({.normalized_shape = 3, .bias = false}),
      none({.normalized_shape = 3, .elementwise_affine = false});
  EXPECT_EQ(names(both), (std::vector<std::string>{"weight [3]", "bias [3]"}));
  EXPECT_EQ(names(weight), (std::vector<std::string>{"weight [3]"}));
  EXPECT_EQ(none.parameterCount(), 0);
  expectSame(read(both, "weight"), RowMajorMatrix::Ones(3, 1));
}

TEST(RmsNorm, MatchesTheFormulaAtEveryWidth) {
  for (const float offset : {0.0f, 1.0f}) {
    for (Index width = 1; width <= 37; ++width) {
      const RowMajorMatrix x = 10 * randomMatrix(3, width, 1), weight = randomMatrix(1, width, 2);
      LayerNorm norm({.normalized_shape = width, .eps = 1e-6f, .rms = true, .weight_offset = offset});
      EXPECT_EQ(norm.parameterCount(), width);
      EXPECT_EQ(norm.weight()[0] + offset, 1);
      write(norm, "weight", weight);
      RowMajorMatrix y = x;
      norm.forward(window(std::as_const(y)), window(y));
      const RowMajorMatrix gamma = weight.array() + offset;
      expectNear(y, reference::rmsNorm(x.cast<double>(), gamma.cast<double>(), 1e-6).cast<float>());
    }
  }
}

TEST(RmsNorm, OnlyNormalizesWithoutWeights) {
  for (const Index width : {1, 4, 7, 16}) {
    const RowMajorMatrix x = 10 * randomMatrix(3, width, 1);
    LayerNorm norm({.normalized_shape = width, .elementwise_affine = false, .rms = true, .weight_offset = 1});
    EXPECT_EQ(norm.parameterCount(), 0);
    RowMajorMatrix y(3, width);
    norm.forward(window(x), window(y));
    expectNear(y, reference::rmsNorm(x.cast<double>(), reference::RowVector::Ones(width), 1e-5).cast<float>());
  }
}

TEST(BatchNorm, MatchesHandComputedValues) {
  BatchNorm norm({.num_features = 2, .eps = 0});
  write(norm, "running_mean", matrix({{1, 2}}));
  write(norm, "running_var", matrix({{4, 0.25f}}));
  write(norm, "weight", matrix({{2, 1}}));
  write(norm, "bias", matrix({{0.5f, -1}}));
  RowMajorMatrix x = matrix({{3, 3}, {1, 2}});
  norm.forward(window(std::as_const(x)), window(x));
  expectNear(x, matrix({{2.5f, 1}, {0.5f, -1}}));
}

TEST(BatchNorm, ResultDependsOnTheMovingAveragesOnly) {
  BatchNorm norm({.num_features = 5});
  fillRandomly(norm, 1);
  write(norm, "running_var", randomMatrix(5, 1, 9).cwiseAbs());
  const RowMajorMatrix x = randomMatrix(4, 5, 1);
  RowMajorMatrix all(4, 5), one(1, 5);
  norm.forward(window(x), window(all));
  const RowMajorMatrix last = x.bottomRows(1);
  norm.forward(window(last), window(one));
  expectSame(one, all.bottomRows(1));
  EXPECT_EQ(names(norm), (std::vector<std::string>{"weight [5]", "bias [5]", "running_mean [5]", "running_var [5]"}));
}

TEST(Norms, RejectInvalidArguments) {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float eps : {-1.0f, infinite, std::nanf("")}) {
    expectError(ErrorCode::kInvalidArgument, "eps: expected a finite number >= 0, got ",
                [&] { LayerNorm norm({.normalized_shape = 3, .eps = eps}); });
    expectError(ErrorCode::kInvalidArgument, "eps: expected a finite number >= 0, got ",
                [&] { BatchNorm norm({.num_features = 3, .eps = eps}); });
  }
  expectError(ErrorCode::kInvalidArgument, "normalizedShape: expected at least 1, got 0",
              [] { LayerNorm norm({.normalized_shape = 0}); });
  expectError(ErrorCode::kInvalidArgument, "numFeatures: expected at least 1, got -1",
              [] { BatchNorm norm({.num_features = -1}); });
  expectError(ErrorCode::kOutOfMemory, "weight: expected a size that fits into 4 GB of memory, got shape [",
              [] { LayerNorm norm({.normalized_shape = std::numeric_limits<Index>::max()}); });
  const RowMajorMatrix x = randomMatrix(2, 4, 1);
  RowMajorMatrix y(2, 4);
  expectError(ErrorCode::kShapeMismatch, "x: expected [2, 3], got shape [2, 4]",
              [&] { LayerNorm({.normalized_shape = 3}).forward(window(x), window(y)); });
  expectError(ErrorCode::kShapeMismatch, "x: expected [2, 3], got shape [2, 4]",
              [&] { BatchNorm({.num_features = 3}).forward(window(x), window(y)); });
}

}  // namespace
}  // namespace heed
