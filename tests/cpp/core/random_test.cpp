#include "heed/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heed {
namespace {

TEST(Generator, IsXoshiro128PlusPlusSeededBySplitMix64) {
  // From the authors' C sources: for seed 0, SplitMix64 returns e220a8397b1dcdaf, 6e789e6aa1b965f4, hence this state.
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

TEST(Philox, MatchesThePublishedVectors) {
  // Random123's known-answer vectors for philox4x32 with 10 rounds.
  const auto words = [](std::array<uint32_t, 4> counter, uint64_t key) { return philox(counter, key); };
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(words({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words({~0u, ~0u, ~0u, ~0u}, ~uint64_t{0}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
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

TEST(Generator, EqualSeedsReproduceAndDifferentSeedsDiffer) {
  Generator a(5), b(5), c(6);
  const uint32_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
  EXPECT_NE(Generator(5).fork(), Generator(6).fork());
}

}  // namespace
}  // namespace heed
