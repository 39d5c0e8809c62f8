#include "heed/linear.h"

#include <cmath>
#include <limits>

#include "support.h"

namespace heed {
namespace {

constexpr Index kMost = std::numeric_limits<Index>::max();

using namespace test;

RowMajorMatrix forward(const Linear& layer, const RowMajorMatrix& x) {
  Inference in;
  return layer.forward(in.e, valueOf(x)).values();
}

TEST(Linear, MatchesHandComputedValues) {
  Linear layer({.in_features = 2, .out_features = 3, .activation = Activation::kRelu});
  write(layer, "weight", matrix({{1, 2}, {3, 4}, {-5, -6}}));
  write(layer, "bias", matrix({{0.5f, -1, 0}}));
  expectNear(forward(layer, matrix({{1, 1}, {0, -1}})), matrix({{3.5f, 6, 0}, {0, 0, 6}}));
}

TEST(Linear, AddsTheResidualAfterTheActivation) {
  Linear layer({.in_features = 5, .out_features = 7, .activation = Activation::kTanh});
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(4, 5, 2), residual = randomMatrix(4, 7, 3);
  Inference in;
  const Value consumed = in(residual);
  expectNear(layer.forward(in.e, valueOf(x), &consumed).values(), forward(layer, x) + residual);
}

TEST(Linear, PositionsAreIndependent) {
  Linear layer({.in_features = 13, .out_features = 11, .activation = Activation::kGelu});
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(17, 13, 2);
  const RowMajorMatrix all = forward(layer, x);
  for (Index t = 0; t < 17; ++t) expectSame(forward(layer, x.row(t)), all.row(t));
}

TEST(Linear, FunctionEqualsTheLayer) {
  Linear layer({.in_features = 9, .out_features = 10, .activation = Activation::kSilu});
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(3, 9, 2), weight = read(layer, "weight"), bias = read(layer, "bias");
  Inference in;
  const Value bias_row = Value::constant(view(bias.data(), 1, 10));
  expectSame(in.e.linear(valueOf(x), valueOf(weight), bias_row, Activation::kSilu).values(), forward(layer, x));
}

TEST(Linear, ParametersAreReadAndWrittenByRows) {
  Linear layer({.in_features = 3, .out_features = 10});
  const RowMajorMatrix weight = randomMatrix(10, 3, 1);
  write(layer, "weight", weight);
  const RowMajorMatrix rows = randomMatrix(2, 3, 2);
  const std::vector<Parameter> all = layer.parameters();
  parameter(all, "weight").write(6, 2, rows.data());
  RowMajorMatrix expected = weight;
  expected.middleRows(6, 2) = rows;
  expectSame(read(layer, "weight"), expected);
  EXPECT_EQ(names(layer), (std::vector<std::string>{"weight [10, 3]", "bias [10]"}));
  Linear plain({.in_features = 3, .out_features = 10, .bias = false});
  EXPECT_EQ(plain.parameterCount(), 30);
  EXPECT_EQ(plain.bias(), nullptr);
}

TEST(Linear, Int8StaysNearFloat32) {
  Linear fp32({.in_features = 64, .out_features = 32}),
      int8({.in_features = 64, .out_features = 32, .precision = Precision::kInt8});
  fillRandomly(fp32, 1);
  fillRandomly(int8, 1);
  const RowMajorMatrix x = randomMatrix(5, 64, 2);
  const RowMajorMatrix expected = forward(fp32, x), got = forward(int8, x);
  EXPECT_LT((got - expected).cwiseAbs().maxCoeff(),
            0.07f);  // 64 products, with errors of about 1/254 of the weight and 1/127 of the activation
  EXPECT_GT((got - expected).cwiseAbs().maxCoeff(), 0);
}

TEST(Linear, AddsTheMaximumOfInt8ProductsWithoutOverflow) {
  // Quantized activations of 127 times weights of +-128, all products with the same sign.
  const Index width = kMaxInt8Inputs;
  for (const signed char step : {127, -128}) {
    Linear layer({.in_features = width, .out_features = 1, .bias = false, .precision = Precision::kInt8});
    const std::vector<signed char> weights(static_cast<size_t>(width), step);
    const float scale = 1;
    const Parameter weight = layer.parameters()[0];
    writeInt8(weight, width, 0, 1, weights.data(), &scale);
    RowMajorMatrix x = RowMajorMatrix::Ones(1, width);
    x(0, 0) = 0;  // the zero point, so that 1 is quantized to 127
    EXPECT_NEAR(forward(layer, x)(0, 0) / (static_cast<float>(width - 1) * step), 1, 1e-4);
  }
}

TEST(Linear, PropagatesNaNWeightsInBothPrecisions) {
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      Linear layer({.in_features = 20, .out_features = 3, .bias = false, .precision = precision});
      RowMajorMatrix weight = randomMatrix(3, 20, 1);
      weight(1, 17) = odd;
      write(layer, "weight", weight);
      RowMajorMatrix x = RowMajorMatrix::Ones(2, 20);
      x(1, 17) = 0;
      const RowMajorMatrix y = forward(layer, x);
      EXPECT_FALSE(std::isfinite(y(0, 1)));
      EXPECT_TRUE(std::isnan(y(1, 1)));
      EXPECT_TRUE(y.col(0).allFinite() && y.col(2).allFinite());
      EXPECT_FALSE(std::isfinite(read(layer, "weight")(1, 17)));
    }
  }
}

TEST(Linear, LookupTablesUseTheFullRangeOfInt8) {
  // Weights for matrix products are quantized more coarsely where eight neighbours have the same sign; lookup tables
  // are not.
  const auto error = [](bool lookup) {
    Linear layer({.in_features = 64, .out_features = 8, .precision = Precision::kInt8, .lookup = lookup});
    const RowMajorMatrix weight = randomMatrix(8, 64, 3);
    write(layer, "weight", weight);
    return (read(layer, "weight") - weight).cwiseAbs().maxCoeff();
  };
  EXPECT_LE(error(true), 1.001f / 254);
  EXPECT_GT(error(false), 1.2f / 254);
}

TEST(Linear, RejectsInvalidArguments) {
  using enum ErrorCode;
  expectError(kInvalidArgument, "inFeatures: expected at least 1, got 0",
              [] { Linear layer({.in_features = 0, .out_features = 1}); });
  expectError(kInvalidArgument, "outFeatures: expected at least 1, got -3",
              [] { Linear layer({.in_features = 1, .out_features = -3}); });
  expectError(kOutOfMemory, "weight: expected a size that fits into 4 GB of memory, got shape [1048576, 1048576]",
              [] { Linear layer({.in_features = 1 << 20, .out_features = 1 << 20}); });
  expectError(kOutOfMemory,
              "weight: expected a size that fits into 4 GB of memory, got shape [" + std::to_string(kMost) + ", 8]",
              [] { Linear layer({.in_features = 8, .out_features = kMost}); });
  expectError(
      kUnsupported, "inFeatures: expected at most 131072 in int8 (sums of products must fit into 32 bits), got 131073",
      [] { Linear layer({.in_features = kMaxInt8Inputs + 1, .out_features = 1, .precision = Precision::kInt8}); });
  Linear layer({.in_features = 3, .out_features = 4});
  const RowMajorMatrix x = randomMatrix(2, 5, 1), fits = randomMatrix(2, 3, 1);
  RowMajorMatrix y(2, 4);
  Inference in;
  const Value narrow = in(fits);
  expectError(kShapeMismatch, "x: expected [2, 3], got shape [2, 5]", [&] { layer.forward(in.e, valueOf(x)); });
  expectError(kShapeMismatch, "residual: expected [2, 4], got shape [2, 3]",
              [&] { layer.forward(in.e, valueOf(fits), &narrow); });
  expectError(kShapeMismatch, "weight: expected [2, 5], got shape [2, 3]",
              [&] { linear(window(x), window(fits), nullptr, Activation::kIdentity, window(y), in.context); });
}

}  // namespace
}  // namespace heed
