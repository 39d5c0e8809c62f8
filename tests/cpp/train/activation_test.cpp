#include <bit>
#include <cmath>
#include <limits>

#include "gradients.h"
#include "heed/train/ops.h"
#include "ops/reference.h"

namespace heed::test {
namespace {

using train::Graph;
using train::Variable;

struct ActivationCase {
  Activation activation;
  double (*formula)(double);
};
const ActivationCase kActivationCases[] = {
    {Activation::kIdentity, reference::identity},   {Activation::kRelu, reference::relu},
    {Activation::kGelu, reference::gelu},           {Activation::kGeluTanh, reference::geluTanh},
    {Activation::kTanh, reference::tanh},           {Activation::kSigmoid, reference::sigmoid},
    {Activation::kSilu, reference::silu},           {Activation::kQuickGelu, reference::quickGelu},
    {Activation::kGelu10, reference::gelu10},       {Activation::kRelu6, reference::relu6},
    {Activation::kRelu2, reference::relu2},         {Activation::kLeakyRelu, reference::leakyRelu},
    {Activation::kHardswish, reference::hardswish}, {Activation::kMish, reference::mish},
    {Activation::kLaplace, reference::laplace}};

TEST(TrainActivation, GradientsEqualCentralDifferences) {
  for (const ActivationCase& c : kActivationCases) {
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
  for (const ActivationCase& c : kActivationCases) {
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

/// phi'(x) in double precision, with its limits at infinity.
double slopeInDouble(Activation activation, double x) {
  if (activation == Activation::kRelu2) return 2 * std::max(x, 0.0);
  if (activation == Activation::kLeakyRelu) return x > 0 ? 1 : 0.01;
  if (std::isinf(x)) {
    if (activation == Activation::kGelu10 || activation == Activation::kRelu6 || activation == Activation::kLaplace)
      return 0;
    const bool is_bounded = activation == Activation::kTanh || activation == Activation::kSigmoid;
    return activation == Activation::kIdentity || (x > 0 && !is_bounded) ? 1 : 0;
  }
  const double s = reference::sigmoid(x);
  switch (activation) {
    case Activation::kIdentity:
      return 1;
    case Activation::kRelu:
      return x > 0 ? 1 : 0;
    case Activation::kGelu:
      return 0.5 * std::erfc(-x * std::sqrt(0.5)) + x * std::exp(-x * x / 2) / std::sqrt(2 * EIGEN_PI);
    case Activation::kGeluTanh: {
      const double c = 2 * std::sqrt(2 / EIGEN_PI), gate = reference::sigmoid(c * (x + 0.044715 * x * x * x));
      const double spread = gate * (1 - gate);
      return gate + (spread == 0 ? 0 : x * spread * c * (1 + 3 * 0.044715 * x * x));
    }
    case Activation::kTanh:
      return 1 - std::tanh(x) * std::tanh(x);
    case Activation::kSigmoid:
      return s * (1 - s);
    case Activation::kSilu:
      return s + (s == 0 || s == 1 ? 0 : x * s * (1 - s));
    case Activation::kQuickGelu: {
      const double gate = reference::sigmoid(1.702 * x);
      return gate + (gate == 0 || gate == 1 ? 0 : 1.702 * x * gate * (1 - gate));
    }
    case Activation::kGelu10:
      return x > 10 ? 0 : slopeInDouble(Activation::kGelu, x);
    case Activation::kRelu6:
      return x > 0 && x < 6 ? 1 : 0;
    case Activation::kHardswish:
      return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case Activation::kMish: {
      const double t = std::tanh(std::log1p(std::exp(std::min(x, 700.0)))), rest = 1 - t * t;
      return t + (rest == 0 || s == 0 ? 0 : x * rest * s);
    }
    case Activation::kLaplace: {
      const double k = 1 / (0.282095 * std::sqrt(2.0)), z = k * (x - 0.707107);
      return k * std::exp(-z * z) / std::sqrt(EIGEN_PI);
    }
    case Activation::kRelu2:
    case Activation::kLeakyRelu:
      break;
  }
  return 0;
}

TEST(TrainActivation, GradientsAreWithinTheirBoundForAllFloats) {
  constexpr int32_t kStep = 39'989;
  constexpr double kMost = std::numeric_limits<float>::max();
  std::vector<float> x = {kInfinity, -kInfinity, std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()};
  for (int32_t bits = 0; bits < std::bit_cast<int32_t>(kInfinity) - kStep; bits += kStep)
    x.insert(x.end(), {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)});
  const auto count = static_cast<Index>(x.size());
  for (const ActivationCase& c : kActivationCases) {
    Context context;
    Graph graph(context);
    const Variable input = leaf(graph, Eigen::Map<const RowMajorMatrix>(x.data(), 1, count));
    const RowMajorMatrix ones = RowMajorMatrix::Ones(1, count);
    train::Backward::run(graph, activate(graph, input, c.activation), window(ones));
    const RowMajorMatrix gradient = gradientOf(input);
    for (Index i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      if (slopeInDouble(c.activation, x[at]) > kMost) continue;  // beyond the range of floats
      ASSERT_NEAR(gradient(0, i), slopeInDouble(c.activation, x[at]), 2e-6)
          << "activation " << static_cast<int>(c.activation) << " at " << x[at];
    }
  }
}

TEST(TrainActivation, GradientsKeepNaN) {
  EXPECT_EQ(slope(Activation::kRelu, 0), 0);
  for (const Activation a : {Activation::kGelu, Activation::kGeluTanh, Activation::kTanh, Activation::kSigmoid,
                             Activation::kSilu, Activation::kQuickGelu, Activation::kGelu10, Activation::kRelu2,
                             Activation::kHardswish, Activation::kMish, Activation::kLaplace})
    EXPECT_TRUE(std::isnan(slope(a, std::nanf(""))));
}

TEST(TrainGate, GradientsEqualCentralDifferences) {
  for (const ActivationCase& c : kActivationCases) {
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
