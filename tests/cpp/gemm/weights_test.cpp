#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "gemm/random_floats.h"
#include "gemm/weights/float32.h"
#include "gemm/weights/int8.h"
#include "support.h"

namespace heed {
namespace {

using test::writeInt8;

TEST(Float32Weight, ReadsBackWhatWasWrittenByRowRanges) {
  for (const Index out : {1, 7, 8, 19}) {
    for (const Index in : {1, 3, 4, 9}) {
      const std::vector<float> w = randomFloats(out * in, 5);
      Float32Weight weight(out, in);
      for (Index row = 0; row < out; row += 3) weight.write(row, std::min<Index>(3, out - row), w.data() + row * in);
      std::vector<float> read(w.size());
      weight.read(0, out, read.data());
      EXPECT_EQ(read, w);
      weight.read(out - 1, 1, read.data());
      EXPECT_EQ(read[0], w[static_cast<size_t>((out - 1) * in)]);
    }
  }
}

TEST(Int8Weight, QuantizesRowByRow) {
  constexpr Index kOut = 11, kIn = 13;
  const std::vector<float> w = randomFloats(kOut * kIn, 6);
  Int8Weight weight(kOut, kIn);
  weight.write(0, kOut, w.data());
  std::vector<float> read(w.size());
  weight.read(0, kOut, read.data());
  for (Index r = 0; r < kOut; ++r) {
    float largest = 0, eights[4] = {};  // sums of the positive and of the negative weights per 16-bit lane
    for (Index k = 0; k < kIn; ++k) {
      const float x = w[static_cast<size_t>(r * kIn + k)];
      largest = std::max(largest, std::fabs(x));
      eights[k % 4 / 2 + (x < 0 ? 2 : 0)] += std::fabs(x);
    }
    const float narrow = *std::max_element(eights, eights + 4) / 254, step = std::max(largest / 127, narrow);
    EXPECT_LT(narrow, 2.5f * largest / 127);
    for (Index k = 0; k < kIn; ++k) {
      const auto at = static_cast<size_t>(r * kIn + k);
      EXPECT_NEAR(read[at], w[at], step * 0.501f);
    }
  }
}

TEST(Int8Weight, IsWideOnlyWhereNarrowRowsWouldLoseTooMuch) {
  constexpr Index kOut = 64;
  for (const Index in : {20, 100, 380, 3076}) {  // not rotated
    Int8Weight weight(kOut, in);
    const std::vector<float> bell = randomFloats(kOut * in, 8), equal(static_cast<size_t>(in), -3);
    weight.write(0, kOut, bell.data());
    for (Index p = 0; p < weight.panels(); ++p) EXPECT_FALSE(weight.isWide(p)) << in;
    weight.write(10, 1, equal.data());
    for (Index p = 0; p < weight.panels(); ++p) EXPECT_EQ(weight.isWide(p), p == 1) << in;
    std::vector<float> read(equal.size());
    weight.read(10, 1, read.data());
    for (const float x : read) EXPECT_NEAR(x, -3, 1e-6);
    weight.write(10, 1, bell.data());
    EXPECT_FALSE(weight.isWide(1));
  }
}

// Whole panels and single rows are written by different code.
TEST(Int8Weight, IsTheSameHoweverItsRowsAreDivided) {
  for (const Index out : {1, 5, 8, 29}) {
    for (const Index in : {1, 4, 15, 16, 17, 80}) {
      std::vector<signed char> rows(static_cast<size_t>(out * in));
      std::vector<float> scales(static_cast<size_t>(out));
      uint32_t state = 1;
      for (signed char& w : rows) w = static_cast<signed char>((state = state * 1664525 + 1013904223) >> 24);
      for (Index r = 0; r < out; ++r) scales[static_cast<size_t>(r)] = 0.5f + static_cast<float>(r);
      if (out > 3) std::fill_n(rows.begin() + 3 * in, in, static_cast<signed char>(-128));  // files may contain it
      Int8Weight whole(out, in);
      writeInt8(whole, whole.in(), 0, out, rows.data(), scales.data());
      std::vector<bool> wide(static_cast<size_t>(whole.panels()));
      for (Index r = 0; r < out; ++r) {
        int sum = 0, eights[4] = {};
        for (Index k = 0; k < in; ++k) {
          const int w = rows[static_cast<size_t>(r * in + k)];
          sum += w;
          if (k % 16 == 0) std::fill_n(eights, 4, 0);
          int& eight = eights[k % 4 / 2 + (w < 0 ? 2 : 0)];
          eight += std::abs(w);
          if (eight > 258) wide[static_cast<size_t>(r / 8)] = true;
        }
        EXPECT_EQ(whole.sums()[r], static_cast<float>(sum));
      }
      std::vector<float> expected(rows.size()), read(rows.size());
      for (size_t i = 0; i < rows.size(); ++i)
        expected[i] = scales[i / static_cast<size_t>(in)] * static_cast<float>(rows[i]);
      for (const Index step : {1, 3, 8, 11}) {
        Int8Weight weight(out, in);
        for (Index first = 0; first < out; first += step) {
          writeInt8(weight, weight.in(), first, std::min(step, out - first), rows.data() + first * in,
                    scales.data() + first);
        }
        weight.read(0, out, read.data());
        EXPECT_EQ(read, expected) << out << " " << in << " " << step;
        EXPECT_TRUE(std::equal(weight.panel(0), weight.panel(weight.panels()), whole.panel(0)));
        EXPECT_TRUE(std::equal(weight.sums(), weight.sums() + 8 * weight.panels(), whole.sums()));
        for (Index p = 0; p < weight.panels(); ++p) EXPECT_EQ(weight.isWide(p), wide[static_cast<size_t>(p)]);
      }
    }
  }
}

// Nearly equal weights, which a narrow row would shrink to a fifth of the range or less.
TEST(Int8Weight, KeepsTheFullRangeOfTables) {
  constexpr Index kIn = 60;  // not rotated
  std::vector<float> row(kIn, 0.5f), read(kIn);
  for (size_t k = 0; k < row.size(); k += 3) row[k] = -1;
  const auto integers = [&](bool full_range) {
    Int8Weight weight(1, kIn, full_range);
    weight.write(0, 1, row.data());
    weight.read(0, 1, read.data());
    return std::nearbyint(1 / weight.scales()[0]);
  };
  EXPECT_EQ(integers(true), 127);
  EXPECT_LT(integers(false), 127);
}

TEST(Int8Weight, GivesRowsThatAreNotFiniteTheScaleNaN) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> rows(2 * 21, 1.0f), read(rows.size());
    rows[21 + 20] = bad;
    Int8Weight weight(2, 21);
    weight.write(0, 2, rows.data());
    weight.read(0, 2, read.data());
    for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(std::isnan(read[i]), i >= 21) << i;
  }
}

TEST(PackedWeight, CountsThePanelsOfAnyNumberOfRows) {
  constexpr Index kMost = std::numeric_limits<Index>::max();
  EXPECT_EQ(Float32Weight(kMost, 0).panels(), kMost / 8 + 1);
  EXPECT_EQ(Float32Weight(16, 3).panels(), 2);
}

TEST(PackedWeight, IsZeroUntilItIsWritten) {
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    const auto weight = PackedWeight::create(9, 5, precision);
    EXPECT_EQ(weight->panels(), 2);
    std::vector<float> read(45, 1.0f);
    weight->read(0, 9, read.data());
    EXPECT_EQ(read, std::vector<float>(45));
  }
}

TEST(PackedWeight, KeepsInt8RowsExactlyInBothFormats) {
  const signed char rows[] = {-127, 0, 5, 127, 1, -1};
  const float scales[] = {0.5f, 0.125f};
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    const auto weight = PackedWeight::create(2, 3, precision);
    writeInt8(*weight, weight->in(), 0, 2, rows, scales);
    std::vector<float> read(6);
    weight->read(0, 2, read.data());
    EXPECT_EQ(read, (std::vector<float>{-63.5f, 0, 2.5f, 15.875f, 0.125f, -0.125f}));
  }
}

}  // namespace
}  // namespace heed
