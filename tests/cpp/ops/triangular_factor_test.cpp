#include "ops/triangular_factor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace heed {
namespace {

TEST(TriangularFactor, TimesItsTransposeIsTheMatrix) {
  for (const Index width : {1, 2, 3, 31, 32, 33, 65, 100}) {
    const auto at = [width](Index i, Index j) { return static_cast<size_t>(i * width + j); };
    std::vector<double> h(static_cast<size_t>(width * width));
    for (Index i = 0; i < width; ++i) {
      for (Index j = 0; j < width; ++j) h[at(i, j)] = std::cos(0.1 * static_cast<double>(i - j)) + (i == j ? 0.5 : 0);
    }
    std::vector<double> r = h;
    ASSERT_TRUE(triangularFactor(r.data(), width));
    for (Index i = 0; i < width; ++i) {
      for (Index j = i; j < width; ++j) {
        double sum = 0;
        for (Index k = j; k < width; ++k) sum += r[at(i, k)] * r[at(j, k)];
        EXPECT_NEAR(sum, h[at(i, j)], 1e-12) << width << ": " << i << ", " << j;
      }
    }
  }
}

TEST(TriangularFactor, ReturnsFalseForMatricesThatAreNotPositiveDefinite) {
  std::vector<double> h = {1, 2, 2, 1};
  EXPECT_FALSE(triangularFactor(h.data(), 2));
  h = {1, 0, 0, std::nan("")};
  EXPECT_FALSE(triangularFactor(h.data(), 2));
}

}  // namespace
}  // namespace heed
