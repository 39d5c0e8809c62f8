#include "heed/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heed {
namespace {

TEST(Generator, IsXoshiro128PlusPlusSeededBySplitMix64) {
  // From the authors' C sources, seed 0: SplitMix64 gives e220a8397b1dcdaf, 6e789e6aa1b965f4 and so the state below.
  uint32_t s[4] = {0x7b1dcdaf, 0xe220a839, 0xa1b965f4, 0x6e789e6a};
  const auto rotate = [](uint32_t x, int k) { return (x << k) | (x >> (32 - k)); };
  Generator generator(0);
  for (int i = 0; i < 100; ++i) {
    const uint32_t expected = rotate(s[0] + s[3], 7) + s[0];
    const uint32_t t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 11);
    ASSERT_EQ(generator.next(), expected);
  }
}

TEST(Generator, UniformHasTheMomentsOfTheUniformDistribution) {
  Generator generator(1);
  const int count = 1'000'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double u = static_cast<double>(generator.uniform());
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / count, 0.5, 4 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / count));
}

TEST(Generator, SeedsReproduceAndDiffer) {
  Generator a(5), b(5), c(6);
  const uint32_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
  EXPECT_NE(Generator(5).fork(), Generator(6).fork());
}

}  // namespace
}  // namespace heed
