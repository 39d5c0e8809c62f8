#include "ops/trellis_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support.h"

namespace heed {
namespace {

double errorOf(const std::vector<float>& targets, const std::vector<float>& steps, const std::vector<int>& states) {
  double sum = 0;
  for (size_t k = 0; k < targets.size(); ++k)
    sum += std::pow(targets[k] - static_cast<double>(steps[k]) * trellisLevel(states[k]), 2);
  return sum;
}

TEST(TrellisSearch, RejectsWhatHasNoPath) {
  Arena arena;
  float zero = 0;
  uint16_t state = 0;
  test::expectError(ErrorCode::kInvalidArgument, "length: expected at least 0, got -1",
                    [&] { trellisSearch(3, -1, &zero, &zero, &state, arena); });
  test::expectError(ErrorCode::kInvalidArgument, "bits: expected an integer from 2 to 4, got 5",
                    [&] { trellisSearch(5, 1, &zero, &zero, &state, arena); });
}

/// Compares the result with the best of all paths. `scale` multiplies the steps; with small steps, targets exceed the
/// range of 16-bit costs.
void expectBest(int bits, float scale, double tolerance) {
  Arena arena;
  const int length = bits == 2 ? 8 : bits == 3 ? 5 : 4;
  std::vector<float> targets, steps;
  for (int k = 0; k < length; ++k) {
    targets.push_back(2 * std::sin(static_cast<float>(k * k + 1)));
    steps.push_back(k == 2 ? 0 : scale * static_cast<float>(k + 1));
  }
  double least = 1e9;
  for (int path = 0; path < 1 << (bits * length); ++path) {
    std::vector<int> states;
    for (int k = 0, state = 0; k < length; ++k)
      states.push_back(state = ((state << bits) | (path >> (bits * k) & ((1 << bits) - 1))) % 8192);
    least = std::min(least, errorOf(targets, steps, states));
  }
  std::vector<uint16_t> found(static_cast<size_t>(length));
  trellisSearch(bits, length, targets.data(), steps.data(), found.data(), arena);
  std::vector<int> states(found.begin(), found.end());
  for (size_t k = 0; k < states.size(); ++k)
    EXPECT_EQ(states[k] >> bits, k == 0 ? 0 : states[k - 1] % (8192 >> bits)) << "not a path";
  EXPECT_NEAR(errorOf(targets, steps, states), least, tolerance * least);
}

TEST(TrellisSearch, FindsTheBestOfAllPaths) {
  for (const int bits : {2, 3, 4}) {
    expectBest(bits, 0.001F, 1e-5);  // in single precision
    expectBest(bits, 0.02F, 1e-2);   // with costs in 16 bits
  }
}

TEST(TrellisSearch, FindsPathsWithSmallErrorsForStepsOfAllSizes) {
  Arena arena;
  for (const int bits : {2, 3, 4}) {
    for (const float spread : {0.0F, 0.3F, 1.0F, 4.0F}) {
      std::vector<float> targets, steps;
      double squares = 0;
      for (int k = 0; k < 300; ++k) {
        steps.push_back(std::exp(spread * std::sin(static_cast<float>(k * k))) / 148);
        targets.push_back(steps.back() * 120 * std::sin(static_cast<float>(k * k * k % 1000)));
        squares += std::pow(targets.back(), 2);
      }
      std::vector<uint16_t> found(300);
      trellisSearch(bits, 300, targets.data(), steps.data(), found.data(), arena);
      EXPECT_LT(errorOf(targets, steps, {found.begin(), found.end()}), squares * (bits == 2   ? 0.25
                                                                                  : bits == 3 ? 0.06
                                                                                              : 0.015));
    }
  }
}

TEST(TrellisSearch, OfNothing) {
  Arena arena;
  trellisSearch(3, 0, nullptr, nullptr, nullptr, arena);
}

}  // namespace
}  // namespace heed
