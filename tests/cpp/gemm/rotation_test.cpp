#include "gemm/rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "gemm/gemm.h"
#include "gemm/random_floats.h"
#include "gemm/weights/float32.h"
#include "gemm/weights/int8.h"
#include "support.h"

namespace heed {
namespace {

using test::writeInt8;

constexpr Index kDepths[] = {1, 4, 8, 12, 16, 24, 32, 36, 48, 64, 96, 128, 312, 320, 384, 512, 768, 1536, 3072};

constexpr Rotation kRotations[] = {Rotation::kWithoutSigns, Rotation::kWithSigns};

/// The sign of the value at place j of a block: -1 to the number of pairs of bits that are both 1.
double signOf(size_t j, size_t block, Rotation rotation) {
  double sign = 1;
  for (size_t high = block / 2; rotation == Rotation::kWithSigns && high > 1; high /= 4)
    if ((j & high) && (j & high / 2)) sign = -sign;
  return sign;
}

/// The transform by its definition: entry (i, j) of a Hadamard matrix is -1 to the number of bits that i and j share.
std::vector<double> referenceOf(const std::vector<float>& x, Rotation rotation) {
  const size_t block = static_cast<size_t>(rotationBlock(static_cast<Index>(x.size()))), apart = x.size() / block;
  std::vector<double> out(x.size());
  for (size_t first = 0; first < apart; ++first) {
    for (size_t i = 0; i < block; ++i) {
      for (size_t j = 0; j < block; ++j)
        out[first + i * apart] +=
            (std::popcount(i & j) % 2 == 0 ? 1.0 : -1.0) * signOf(j, block, rotation) * x[first + j * apart];
    }
  }
  if (rotation != Rotation::kWithSigns || block == 1) return out;
  for (size_t k = 0; k < out.size(); k += 4) {
    const double sum = out[k] + out[k + 1] + out[k + 2] + out[k + 3];
    for (size_t i = 0; i < 4; ++i) out[k + i] = sum - 2 * out[k + i];
  }
  return out;
}

TEST(Rotation, HasBlocksOfStridesThatAddWholeVectors) {
  const std::pair<Index, Index> cases[] = {{0, 1},    {1, 1},    {4, 1},     {8, 2},     {24, 2},
                                           {32, 8},   {36, 1},   {312, 2},   {384, 32},  {512, 64},
                                           {640, 32}, {768, 64}, {1536, 64}, {3072, 64}, {1 << 17, 64}};
  for (const auto& [depth, block] : cases) EXPECT_EQ(rotationBlock(depth), block) << depth;
}

TEST(Rotation, IsTheTransformOfBlocksAndOfVectors) {
  for (const Rotation rotation : kRotations) {
    for (const Index depth : kDepths) {
      const std::vector<float> x = randomFloats(depth, static_cast<unsigned>(depth));
      const std::vector<double> expected = referenceOf(x, rotation);
      std::vector<float> got(x.size()), in_place = x;
      rotate(x.data(), depth, rotation, got.data());
      for (size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(got[k], expected[k], 1e-5) << depth << " " << k;
      rotate(in_place.data(), depth, rotation, in_place.data());
      EXPECT_EQ(in_place, got);
    }
  }
}

TEST(Rotation, IsReversed) {
  for (const Rotation rotation : kRotations) {
    for (const Index depth : kDepths) {
      const std::vector<float> x = randomFloats(depth, 3);
      std::vector<float> back(x.size());
      rotateWeights(x.data(), depth, rotation, back.data());
      rotateBack(back.data(), depth, rotation, back.data());
      for (size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(back[k], x[k], 2e-6) << depth;
    }
  }
}

// Blocks of 16 and 64 values have an even number of bits.
TEST(Rotation, SpreadsTheMeanEvenly) {
  for (const Index depth : {64, 512, 768, 1536}) {
    const std::vector<float> ones(static_cast<size_t>(depth), 1.0f);
    std::vector<float> got(ones.size());
    rotate(ones.data(), depth, Rotation::kWithSigns, got.data());
    for (const float x : got) EXPECT_EQ(std::abs(x), std::sqrt(static_cast<float>(4 * rotationBlock(depth))));
  }
}

TEST(Rotation, FindsTheRangeOfTheResult) {
  for (const Index depth : kDepths) {
    if (rotationBlock(depth) == 1) continue;
    std::vector<float> x = randomFloats(depth, 4), expected(x.size()), got(x.size());
    rotate(x.data(), depth, Rotation::kWithSigns, expected.data());
    const auto [low, high, finite] = rotateWithRange(x.data(), depth, got.data());
    EXPECT_EQ(got, expected);
    EXPECT_EQ(low, *std::min_element(expected.begin(), expected.end()));
    EXPECT_EQ(high, *std::max_element(expected.begin(), expected.end()));
    EXPECT_TRUE(finite);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (float& value : x) {
        const float good = std::exchange(value, bad);
        EXPECT_FALSE(rotateWithRange(x.data(), depth, got.data()).finite);
        value = good;
      }
    }
  }
}

/// The root mean square error of the products of `rows` with a weight, relative to that of the products in fp32.
double errorOf(const PackedWeight& weight, const std::vector<float>& rows, const std::vector<float>& w) {
  const Index depth = weight.in(), count = static_cast<Index>(rows.size()) / depth;
  Float32Weight exact(weight.out(), depth);
  exact.write(0, weight.out(), w.data());
  std::vector<float> got(static_cast<size_t>(count * weight.out())), expected(got.size());
  Context context;
  const auto multiply = [&](const PackedWeight& by, std::vector<float>& out) {
    matmul(view(rows.data(), count, depth), by, {}, view(out.data(), count, weight.out()), context);
  };
  multiply(weight, got);
  multiply(exact, expected);
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(got[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(error / norm);
}

/// The values of a weight as integers of rotated rows, with scales that fit the largest of each row.
struct Int8Rows {
  std::vector<signed char> integers;
  std::vector<float> scales;

  explicit Int8Rows(const Int8Weight& weight, Rotation rotation) {
    std::vector<float> row(static_cast<size_t>(weight.in()));
    for (Index r = 0; r < weight.out(); ++r) {
      weight.read(r, 1, row.data());
      rotateWeights(row.data(), weight.in(), rotation, row.data());
      float largest = 0;
      for (const float x : row) largest = std::max(largest, std::abs(x));
      // The weight's own rotation gives its own integers.
      const float scale = rotation == Rotation::kWithSigns ? weight.scales()[r] : largest / 127;
      scales.push_back(scale);
      for (const float x : row) integers.push_back(static_cast<signed char>(std::nearbyint(x / scale)));
    }
  }
};

// Rows of one sign have a mean, which without signs would become the greatest entry of each block.
TEST(Rotation, WithSignsBringsInt8ProductsOfRowsOfOneSignCloserToFloat32) {
  constexpr Index kOut = 20, kRows = 100;
  for (const Index depth : {384, 768, 1536}) {
    const std::vector<float> w = randomFloats(kOut * depth, 5, 0.05f);
    std::vector<float> rows = randomFloats(kRows * depth, 6);
    for (float& x : rows) x = std::max(x, 0.0f);
    Int8Weight with_signs(kOut, depth), without(kOut, depth);
    with_signs.write(0, kOut, w.data());
    const Int8Rows stored(with_signs, Rotation::kWithoutSigns);
    writeInt8(without, depth, 0, kOut, stored.integers.data(), stored.scales.data(), RowCode::kHadamardInt8);
    // B = 32 for 384 has an odd number of bits, so that half of the entries receive the mean.
    const double factor = depth == 384 ? 0.95 : 0.9;
    EXPECT_LT(errorOf(with_signs, rows, w), factor * errorOf(without, rows, w)) << depth;
  }
}

TEST(Rotation, BringsInt8ProductsOfRowsWithOutliersCloserToFloat32) {
  constexpr Index kOut = 20, kRows = 9;
  for (const Index depth : {384, 768, 1536}) {
    const std::vector<float> w = randomFloats(kOut * depth, 5, 0.05f);
    std::vector<float> rows = randomFloats(kRows * depth, 6);
    for (Index r = 0; r < kRows; ++r) rows[static_cast<size_t>(r * depth + 99)] = 40;
    Int8Weight rotated(kOut, depth), plain(kOut, depth);
    rotated.write(0, kOut, w.data());
    // Integers of rows that are not rotated.
    std::vector<signed char> integers(w.size());
    std::vector<float> scales(static_cast<size_t>(kOut));
    for (Index r = 0; r < kOut; ++r) {
      const float* row = w.data() + r * depth;
      const float scale =
          std::abs(*std::max_element(row, row + depth, [](float a, float b) { return std::abs(a) < std::abs(b); })) /
          127;
      scales[static_cast<size_t>(r)] = scale;
      for (Index k = 0; k < depth; ++k)
        integers[static_cast<size_t>(r * depth + k)] = static_cast<signed char>(std::nearbyint(row[k] / scale));
    }
    writeInt8(plain, plain.in(), 0, kOut, integers.data(), scales.data());
    EXPECT_LT(errorOf(rotated, rows, w), 0.5 * errorOf(plain, rows, w)) << depth;
  }
}

std::vector<float> valuesOf(const PackedWeight& weight) {
  std::vector<float> values(static_cast<size_t>(weight.out() * weight.in()));
  weight.read(0, weight.out(), values.data());
  return values;
}

TEST(Rotation, OfStoredIntegersGivesTheSameWeight) {
  constexpr Index kOut = 11;
  for (const Index in : {8, 24, 64, 384}) {
    const std::vector<float> w = randomFloats(kOut * in, 7);
    Int8Weight written(kOut, in), stored(kOut, in);
    written.write(0, kOut, w.data());
    const Int8Rows rows(written, Rotation::kWithSigns);
    for (Index first = 0; first < kOut; first += 4) {
      writeInt8(stored, in, first, std::min<Index>(4, kOut - first), rows.integers.data() + first * in,
                rows.scales.data() + first, RowCode::kRotatedInt8);
    }
    EXPECT_EQ(valuesOf(stored), valuesOf(written));
    EXPECT_TRUE(std::equal(stored.panel(0), stored.panel(stored.panels()), written.panel(0)));
    Float32Weight floats(kOut, in);
    writeInt8(floats, in, 0, kOut, rows.integers.data(), rows.scales.data(), RowCode::kRotatedInt8);
    EXPECT_EQ(valuesOf(floats), valuesOf(written));
  }
}

// A weight is multiplied by rows in one form, so integers that are not rotated end the rotation of all of its rows.
TEST(Rotation, EndsWhereIntegersThatAreNotRotatedAreStored) {
  constexpr Index kOut = 10, kIn = 64, kPart = 4;
  const std::vector<float> w = randomFloats(kOut * kIn, 8);
  const std::vector<signed char> integers(static_cast<size_t>(kPart * kIn), 3);
  const std::vector<float> scales(static_cast<size_t>(kPart), 0.25f);
  for (const bool integers_first : {true, false}) {
    Int8Weight weight(kOut, kIn);
    const LeftForm* const rotated = &weight.leftForm();
    if (integers_first) writeInt8(weight, weight.in(), 0, kPart, integers.data(), scales.data());
    weight.write(kPart, kOut - kPart, w.data() + kPart * kIn);
    if (!integers_first) writeInt8(weight, weight.in(), 0, kPart, integers.data(), scales.data());
    EXPECT_NE(&weight.leftForm(), rotated);
    const std::vector<float> values = valuesOf(weight);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i < integers.size()) {
        EXPECT_EQ(values[i], 0.75f);
      } else {
        EXPECT_NEAR(values[i], w[i], 0.04f);
      }
    }
    // Rotated rows are then rotated back.
    Int8Weight source(kOut, kIn);
    source.write(0, kOut, w.data());
    const Int8Rows rows(source, Rotation::kWithSigns);
    writeInt8(weight, weight.in(), 0, kOut, rows.integers.data(), rows.scales.data(), RowCode::kRotatedInt8);
    const std::vector<float> back = valuesOf(weight);
    for (size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back[i], w[i], 0.05f);
  }
}

// Folders of earlier builds have rows that are rotated without signs; activations are then rotated in the same way.
TEST(Rotation, WithoutSignsOfStoredIntegersKeepsThem) {
  constexpr Index kOut = 11;
  Context context;
  for (const Index in : {8, 24, 64, 128, 384, 512}) {
    std::vector<signed char> integers(static_cast<size_t>(kOut * in));
    for (size_t i = 0; i < integers.size(); ++i) integers[i] = static_cast<signed char>(i * 37 % 255 - 127);
    const std::vector<float> scales(static_cast<size_t>(kOut), 0x1p-10f);
    std::vector<float> expected(integers.begin(), integers.end());  // a sum of at most 64 integers is exact
    for (Index r = 0; r < kOut; ++r) {
      const auto row = std::span(expected).subspan(static_cast<size_t>(r * in), static_cast<size_t>(in));
      const std::vector<double> values = referenceOf({row.begin(), row.end()}, Rotation::kWithoutSigns);
      for (size_t k = 0; k < row.size(); ++k) row[k] = static_cast<float>(values[k]) * 0x1p-10f;
    }
    Int8Weight weight(kOut, in);
    const std::vector<float> other = randomFloats(kOut * in, 12);
    weight.write(0, kOut, other.data());  // is replaced
    writeInt8(weight, in, 0, kOut, integers.data(), scales.data(), RowCode::kHadamardInt8);
    EXPECT_EQ(valuesOf(weight), expected) << in;
    Float32Weight floats(kOut, in);
    writeInt8(floats, in, 0, kOut, integers.data(), scales.data(), RowCode::kHadamardInt8);
    EXPECT_EQ(valuesOf(floats), expected) << in;
    EXPECT_LT(errorOf(weight, randomFloats(5 * in, 13), expected), 0.02) << in;
  }
}

TEST(Rotation, ShowsWhatIsNotFinite) {
  constexpr Index kOut = 3;
  Context context;
  for (const Index depth : {16, 384}) {
    Int8Weight weight(kOut, depth);
    const std::vector<float> w = randomFloats(kOut * depth, 9);
    weight.write(0, kOut, w.data());
    std::vector<float> rows = randomFloats(4 * depth, 10), out(static_cast<size_t>(4 * kOut));
    rows[static_cast<size_t>(2 * depth - 1)] = std::numeric_limits<float>::quiet_NaN();
    rows[static_cast<size_t>(2 * depth)] = -std::numeric_limits<float>::infinity();
    std::fill_n(rows.begin() + 3 * depth, depth, 3e38f);  // sums exceed the range of fp32
    matmul(view(static_cast<const float*>(rows.data()), 4, depth), weight, {}, view(out.data(), 4, kOut), context);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i >= size_t{kOut}) << depth << " " << i;
  }
}

}  // namespace
}  // namespace heed
