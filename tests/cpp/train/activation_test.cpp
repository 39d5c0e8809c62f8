#include <limits>

#include "gradients.h"
#include "heed/train/ops.h"
#include "ops/reference.h"

namespace heed::test {
namespace {

using train::Graph;
using train::Variable;

struct Case {
  Activation activation;
  double (*formula)(double);
};
const Case kCases[] = {{Activation::kIdentity, reference::identity}, {Activation::kRelu, reference::relu},
                       {Activation::kGelu, reference::gelu},         {Activation::kGeluTanh, reference::geluTanh},
                       {Activation::kTanh, reference::tanh},         {Activation::kSigmoid, reference::sigmoid},
                       {Activation::kSilu, reference::silu},         {Activation::kQuickGelu, reference::quickGelu}};

TEST(TrainActivation, GradientsEqualCentralDifferences) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(static_cast<int>(c.activation));
    for (const auto& [rows, columns] : {std::array<Index, 2>{1, 1}, {3, 7}, {9, 13}, {2, 130}}) {
      expectGradients(
          {8 * randomMatrix(rows, columns, 1)},
          [&](Graph& graph, const auto& x) { return activate(graph, x[0], c.activation); },
          [&](const auto& x) -> DoubleMatrix { return x[0].unaryExpr(c.formula); });
    }
  }
}

TEST(TrainActivation, ValuesAreThoseOfInference) {
  const RowMajorMatrix x = 4 * randomMatrix(3, 13, 1);
  for (const Case& c : kCases) {
    Context context;
    Graph graph(context);
    RowMajorMatrix expected = x;
    activate(window(expected), c.activation);
    expectSame(activate(graph, leaf(graph, x), c.activation).value(), expected);
  }
}

/// phi'(x) of one number.
float slope(Activation activation, float x) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix value = RowMajorMatrix::Constant(1, 1, x);
  const Variable input = leaf(graph, value);
  backward(graph, activate(graph, input, activation));
  return gradientOf(input)(0, 0);
}

TEST(TrainActivation, GradientsOfLargeArgumentsAreTheirLimits) {
  for (const float x : {20.0f, 100.0f, 1e4f, 1e30f, std::numeric_limits<float>::infinity()}) {
    SCOPED_TRACE(x);
    for (const Activation a :
         {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu, Activation::kQuickGelu}) {
      EXPECT_NEAR(slope(a, x), 1, 1e-6);
      EXPECT_NEAR(slope(a, -x), 0, 1e-6);
    }
    for (const Activation a : {Activation::kTanh, Activation::kSigmoid}) {
      EXPECT_NEAR(slope(a, x), 0, 1e-6);
      EXPECT_NEAR(slope(a, -x), 0, 1e-6);
    }
  }
  EXPECT_EQ(slope(Activation::kRelu, 0), 0);
  for (const Activation a :
       {Activation::kGelu, Activation::kGeluTanh, Activation::kTanh, Activation::kSigmoid, Activation::kSilu})
    EXPECT_TRUE(std::isnan(slope(a, std::nanf(""))));
}

TEST(TrainGate, GradientsEqualCentralDifferences) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(static_cast<int>(c.activation));
    for (const Index width : {1, 7, 13}) {
      for (const bool second : {false, true}) {
        expectGradients(
            {4 * randomMatrix(3, 2 * width, 1)},
            [&](Graph& graph, const auto& x) { return gate(graph, x[0], c.activation, second); },
            [&](const auto& x) -> DoubleMatrix {
              const DoubleMatrix left = x[0].leftCols(width), right = x[0].rightCols(width);
              return (second ? right : left).unaryExpr(c.formula).cwiseProduct(second ? left : right);
            });
      }
    }
  }
}

TEST(TrainGate, NeedsTwoHalves) {
  Context context;
  Graph graph(context);
  expectError(ErrorCode::kShapeMismatch,
              "x:", [&] { gate(graph, leaf(graph, randomMatrix(2, 3, 1)), Activation::kSilu); });
}

}  // namespace
}  // namespace heed::test
