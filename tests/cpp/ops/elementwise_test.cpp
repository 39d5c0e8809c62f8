#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "heed/activation.h"
#include "ops/activations.h"
#include "ops/reference.h"
#include "support.h"

namespace heed {
namespace {

using Four = simd::Floats<1>;
using Function = Four (*)(const Four&);

float lane(Function f, float x) { return wasm_f32x4_extract_lane(f(simd::splat(x)).vectors[0], 2); }

/// Calls f(x) for floats from `low` to `high`, evenly spread over all representable numbers, including subnormal ones
/// and, at the ends, infinities.
template <class F>
void forFloats(float low, float high, const F& f) {
  constexpr int64_t kStep = 9'973;
  // The order of floats is that of their bits, read as integers with sign and magnitude.
  const auto number = [](float x) {
    const int64_t size = std::bit_cast<int32_t>(std::fabs(x));
    return std::signbit(x) ? -size : size;
  };
  for (int64_t n = number(low); n < number(high); n += kStep) {
    const auto x = std::bit_cast<float>(static_cast<int32_t>(std::abs(n)));
    f(n < 0 ? -x : x);
  }
  f(high);
}

/// The maximum of |f(x) - reference(x)| / (absolute + relative |reference(x)|) over the floats in [low, high].
double worst(Function f, double (*reference)(double), float low, float high, double absolute, double relative) {
  double worst = 0;
  forFloats(low, high, [&](float x) {
    const double expected = reference(x), got = lane(f, x);
    if (got == expected) return;  // infinities, too
    const double error = std::fabs(got - expected) / (absolute + relative * std::fabs(expected));
    worst = std::isnan(error) ? test::kInfinity : std::max(worst, error);
  });
  return worst;
}

using test::kInfinity;

/// A formula with its limit, 0, at -infinity, where evaluating it would multiply by infinity.
template <double (*kFormula)(double)>
double withLimit(double x) {
  return x == -std::numeric_limits<double>::infinity() ? 0 : kFormula(x);
}

// The bounds are those at the top of ops/elementwise.h.

TEST(Exp, IsWithinItsErrorBound) {
  EXPECT_LT(worst(simd::exp, std::exp, -87.3f, 88.3f, 0, 2e-7), 1);
  EXPECT_LT(worst(simd::exp, std::exp, -kInfinity, -87.3f, 2e-38, 0), 1);
}

TEST(Exp, HasTheLimitsThatSoftmaxNeeds) {
  EXPECT_EQ(lane(simd::exp, 0.0f), 1.0f);
  EXPECT_EQ(lane(simd::exp, -kInfinity), 0.0f);
  EXPECT_EQ(lane(simd::exp, -1000.0f), 0.0f);
  EXPECT_TRUE(std::isnan(lane(simd::exp, std::nanf(""))));
}

TEST(Activations, AreWithinTheirBoundsForAllFloats) {
  const auto all = [](Function f, double (*reference)(double), double absolute, double relative) {
    return worst(f, reference, -kInfinity, kInfinity, absolute, relative);
  };
  EXPECT_LT(all(simd::sigmoid, reference::sigmoid, 2e-38, 3e-7), 1);
  EXPECT_LT(all(simd::tanh, std::tanh, 1e-44, 4e-7), 1);
  EXPECT_LT(all(simd::erf, std::erf, 4e-7, 0), 1);
  EXPECT_LT(all(activations::Gelu::value<1>, withLimit<reference::gelu>, 1e-6, 4e-7), 1);
  EXPECT_LT(all(activations::GeluTanh::value<1>, withLimit<reference::geluTanh>, 1e-6, 4e-7), 1);
  EXPECT_LT(all(activations::Silu::value<1>, withLimit<reference::silu>, 4e-37, 4e-7), 1);
  EXPECT_LT(all(activations::QuickGelu::value<1>, withLimit<reference::quickGelu>, 1e-6, 4e-7), 1);
  EXPECT_EQ(all(activations::Relu::value<1>, reference::relu, 1e-300, 0), 0);
  EXPECT_LT(all(activations::Gelu10::value<1>, withLimit<reference::gelu10>, 1e-6, 4e-7), 1);
  EXPECT_EQ(all(activations::Relu6::value<1>, reference::relu6, 1e-300, 0), 0);
  EXPECT_LT(worst(activations::Relu2::value<1>, reference::relu2, -1e18f, 1e18f, 1e-38, 4e-7), 1);
  EXPECT_LT(all(activations::LeakyRelu::value<1>, reference::leakyRelu, 1e-38, 4e-7), 1);
  EXPECT_LT(all(activations::Hardswish::value<1>, withLimit<reference::hardswish>, 1e-6, 4e-7), 1);
  EXPECT_LT(worst(activations::Mish::value<1>, reference::mish, -1e30f, 700.0f, 1e-6, 4e-7), 1);
  EXPECT_LT(all(activations::Laplace::value<1>, reference::laplace, 1e-6, 0), 1);
}

TEST(Activations, KeepNaN) {
  for (const Function f :
       {&simd::exp<1>, &simd::sigmoid<1>, &simd::tanh<1>, &simd::erf<1>, &activations::Gelu::value<1>,
        &activations::GeluTanh::value<1>, &activations::Silu::value<1>, &activations::QuickGelu::value<1>,
        &activations::Relu::value<1>, &activations::Gelu10::value<1>, &activations::Relu6::value<1>,
        &activations::Relu2::value<1>, &activations::LeakyRelu::value<1>, &activations::Hardswish::value<1>,
        &activations::Mish::value<1>, &activations::Laplace::value<1>})
    EXPECT_TRUE(std::isnan(lane(f, std::nanf(""))));
}

TEST(Activations, HaveCorrectLimits) {
  for (const Function f : {&activations::Gelu::value<1>, &activations::GeluTanh::value<1>, &activations::Silu::value<1>,
                           &activations::QuickGelu::value<1>, &activations::Relu::value<1>}) {
    for (const float x : {1e4f, 3e38f, std::numeric_limits<float>::max(), kInfinity}) {
      EXPECT_EQ(lane(f, x), x);
      EXPECT_NEAR(lane(f, -x), 0, 1e-6);
    }
  }
}

TEST(Activations, StayBoundedWhereExpWouldOverflow) {
  for (const float x : {89.0f, 1000.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(lane(simd::sigmoid, x), 1.0f) << x;
    EXPECT_EQ(lane(simd::tanh, x), 1.0f) << x;
    EXPECT_GE(lane(simd::sigmoid, -x), 0.0f) << x;
    EXPECT_LT(lane(simd::sigmoid, -x), 1e-38f) << x;
    EXPECT_EQ(lane(simd::tanh, -x), -1.0f) << x;
  }
}

TEST(Activate, DoesNotDependOnLengthOrAddress) {
  for (const Index columns : {1, 3, 4, 5, 7, 8, 9, 26}) {
    std::vector<float> storage(static_cast<size_t>(3 * (columns + 3) + 1));
    for (size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<float>(i % 13) * 0.37f - 2.0f;
    const std::vector<float> before = storage;
    activate(view(storage.data() + 1, 3, columns, columns + 3), Activation::kGelu);
    for (size_t i = 0; i < storage.size(); ++i) {
      const Index at = static_cast<Index>(i) - 1;
      const bool inside = at >= 0 && at % (columns + 3) < columns && at / (columns + 3) < 3;
      EXPECT_EQ(storage[i], inside ? lane(activations::Gelu::value<1>, before[i]) : before[i])
          << columns << " columns, at " << i;
    }
  }
}

TEST(Activate, ErrorListsTheNames) {
  EXPECT_EQ(activationNamed("gelu_tanh"), Activation::kGeluTanh);
  try {
    activationNamed("gleu");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "activation: expected one of 'identity', 'relu', 'gelu', 'gelu_tanh', 'tanh', 'sigmoid', 'silu', "
                 "'quick_gelu', 'gelu_10', 'relu6', 'relu2', 'leaky_relu', 'hardswish', 'mish', 'laplace', got 'gleu'");
  }
}

}  // namespace
}  // namespace heed
