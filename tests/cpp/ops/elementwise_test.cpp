#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "heed/activation.h"
#include "ops/reference.h"
#include "support.h"

namespace heed {
namespace {

using Four = simd::Floats<1>;
using Function = Four (*)(const Four&);

float lane(Function f, float x) { return wasm_f32x4_extract_lane(f(simd::splat(x)).vectors[0], 2); }

/// The maximum of |f(x) - reference(x)| / (absolute + relative |reference(x)|) on a dense grid over [low, high].
double worst(Function f, double (*reference)(double), float low, float high, double absolute, double relative) {
  double worst = 0;
  constexpr int kSteps = 200'000;
  for (int i = 0; i <= kSteps; ++i) {
    const float x = low + (high - low) * static_cast<float>(i) / kSteps;
    const double expected = reference(x);
    worst = std::max(worst, std::fabs(lane(f, x) - expected) / (absolute + relative * std::fabs(expected)));
  }
  return worst;
}

using test::kInfinity;

TEST(Exp, IsWithinItsErrorBound) {
  EXPECT_LT(worst(simd::exp, std::exp, -87.2f, 88.2f, 0, 2e-7), 1);
  EXPECT_LT(worst(simd::exp, std::exp, -1, 1, 0, 2e-7), 1);
}

TEST(Exp, HasTheLimitsThatSoftmaxNeeds) {
  EXPECT_EQ(lane(simd::exp, 0.0f), 1.0f);
  EXPECT_EQ(lane(simd::exp, -kInfinity), 0.0f);
  EXPECT_EQ(lane(simd::exp, -1000.0f), 0.0f);
  EXPECT_TRUE(std::isnan(lane(simd::exp, std::nanf(""))));
}

TEST(Activations, AreWithinTheirBounds) {
  EXPECT_LT(worst(simd::sigmoid, reference::sigmoid, -100, 100, 2e-7, 0), 1);
  EXPECT_LT(worst(simd::tanh, std::tanh, -12, 12, 3e-7, 0), 1);
  EXPECT_LT(worst(simd::erf, std::erf, -8, 8, 4e-7, 0), 1);
  EXPECT_LT(worst(simd::gelu, reference::gelu, -12, 12, 1e-6, 4e-7), 1);
  EXPECT_LT(worst(simd::gelu, reference::gelu, -1, 1, 1e-6, 4e-7), 1);
  EXPECT_LT(worst(simd::geluTanh, reference::geluTanh, -12, 12, 1e-6, 4e-7), 1);
}

TEST(Activations, HaveCorrectLimits) {
  for (const Function f : {&simd::gelu<1>, &simd::geluTanh<1>, &simd::silu<1>, &simd::quickGelu<1>, &simd::relu<1>}) {
    EXPECT_EQ(lane(f, 1e4f), 1e4f);
    EXPECT_NEAR(lane(f, -1e4f), 0, 1e-6);
    EXPECT_TRUE(std::isnan(lane(f, std::nanf(""))));
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
      EXPECT_EQ(storage[i], inside ? lane(simd::gelu, before[i]) : before[i]) << columns << " columns, at " << i;
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
                 "'quick_gelu', got 'gleu'");
  }
}

}  // namespace
}  // namespace heed
