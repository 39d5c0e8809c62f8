#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "gemm/attention_products.h"
#include "gemm/gemm.h"
#include "gemm/random_floats.h"
#include "heed/attention.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "heed/pooling.h"
#include "ops/reference.h"
#include "ops/softmax.h"
#include "support.h"

/// Sums of many terms: their errors against double precision stay within the bound that kSumBlock (gemm/range.h) gives,
/// and sums of up to kSumBlock terms are those of a single chain.
namespace heed {
namespace {

using namespace test;

constexpr double kEps = 0x1p-24;

/// The error bound for a sum of `count` terms whose magnitudes add up to `size`, with a few more roundings for
/// operations on the terms and on the sum.
double bound(Index count, double size) {
  const auto chain = static_cast<double>(std::min(count, kSumBlock)), blocks = static_cast<double>(count / kSumBlock);
  return (chain + blocks + 8) * kEps * size;
}

/// The sum of a[i] b[i], in chains that end at the multiples of kSumBlock, as every product computes it.
float chainedSum(const float* a, const float* b, Index count) {
  float total = 0;
  for (Index first = 0; first < count; first += kSumBlock) {
    float sum = 0;
    for (Index i = first; i < std::min(first + kSumBlock, count); ++i) sum = a[i] * b[i] + sum;
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

// Around the length of a chain, and far beyond it.
constexpr Index kLengths[] = {1, 7, 511, 512, 513, 1023, 1024, 1025, 1536, 4097, 65'536, 100'003};

TEST(LongSums, OfLinearLayersAreThoseOfChains) {
  for (const Index depth : kLengths) {
    for (const Index rows : {1, 2, 7, 13}) {
      if (depth > 10'000 && rows > 2) continue;
      constexpr Index kOut = 19;
      const std::vector<float> a = randomFloats(rows * depth, 1), w = randomFloats(kOut * depth, 2);
      const auto weight = PackedWeight::create(kOut, depth, Precision::kFloat32);
      weight->write(0, kOut, w.data());
      RowMajorMatrix c(rows, kOut);
      Context context;
      matmul(view(a.data(), rows, depth), *weight, {}, window(c), context);
      for (Index t = 0; t < rows; ++t) {
        for (Index m = 0; m < kOut; ++m)
          ASSERT_EQ(c(t, m), chainedSum(&a[static_cast<size_t>(t * depth)], &w[static_cast<size_t>(m * depth)], depth))
              << depth << " inputs, row " << t << " of " << rows << ", output " << m;
      }
    }
  }
}

TEST(LongSums, OfLinearLayersAreWithinTheBound) {
  for (const Index depth : {Index{8'192}, Index{65'536}, Index{262'144}}) {
    Linear layer({.in_features = depth, .out_features = 1, .bias = false});
    for (const float value : {0.1f, 0.7f}) {
      const RowMajorMatrix x = RowMajorMatrix::Constant(2, depth, value);
      write(layer, "weight", RowMajorMatrix::Constant(1, depth, 1));
      Inference in;
      const RowMajorMatrix y = layer.forward(in.e, valueOf(x)).values();
      const double exact = static_cast<double>(value) * static_cast<double>(depth);
      EXPECT_NEAR(y(0, 0), exact, bound(depth, exact)) << depth;
      EXPECT_EQ(y(1, 0), y(0, 0));
    }
  }
}

TEST(LongSums, OfSelectedRowsSkipZeros) {
  constexpr Index kKeys = 3000, kWidth = 77;
  Arena arena;
  const std::vector<float> value = randomFloats(kKeys * kWidth, 1);
  const Panels panels = packValues(view(value.data(), kKeys, kWidth), {nullptr, kKeys}, arena);
  const std::vector<std::vector<Range>> selections = {{{0, kKeys}},
                                                      {{0, 8}, {504, 520}, {1024, 1032}, {2992, kKeys}},
                                                      {{16, 24}, {512, 1536}, {2048, 2056}},
                                                      {{1000, 2000}},
                                                      {{2600, 2904}}};
  for (const std::vector<Range>& ranges : selections) {
    for (const Index height : {1, 2, 3, 5}) {
      std::vector<float> a = randomFloats(height * kKeys, 2), some;
      for (Index r = 0; r < height; ++r) {
        Index k = 0;
        for (const Range& range : ranges) {
          std::fill(&a[static_cast<size_t>(r * kKeys + k)], a.data() + r * kKeys + range.begin, 0.0f);
          some.insert(some.end(), a.begin() + r * kKeys + range.begin, a.begin() + r * kKeys + range.end);
          k = range.end;
        }
        std::fill(a.data() + r * kKeys + k, a.data() + (r + 1) * kKeys, 0.0f);
      }
      const std::vector<float> factors(static_cast<size_t>(height), 1);
      const Range all{0, kKeys}, columns[] = {{0, 8}, {16, kWidth}};
      constexpr Index kColumns = 8 + kWidth - 16;
      const auto count = static_cast<Index>(some.size()) / height;
      std::vector<uint32_t> words(a.size());
      RowMajorMatrix whole(height, kColumns), parts(height, kColumns);
      multiplySelected(view(static_cast<const float*>(a.data()), height, kKeys), panels, {&all, 1}, columns,
                       factors.data(), window(whole), words.data());
      multiplySelected(view(static_cast<const float*>(some.data()), height, count), panels, ranges, columns,
                       factors.data(), window(parts), words.data());
      expectSame(parts, whole);
      for (Index r = 0; r < height; ++r) {
        std::vector<float> column(static_cast<size_t>(kKeys));
        for (Index k = 0; k < kKeys; ++k) column[static_cast<size_t>(k)] = value[static_cast<size_t>(k * kWidth + 20)];
        EXPECT_EQ(whole(r, 8 + 4), chainedSum(a.data() + r * kKeys, column.data(), kKeys));
      }
    }
  }
}

TEST(LongSums, OfExponentialsAreWithinTheBoundAndSkipForbiddenKeys) {
  for (const Index count : {Index{5}, Index{4'096}, Index{4'097}, Index{40'003}, Index{262'144}}) {
    std::vector<float> x = randomFloats(count, 3), equal(static_cast<size_t>(count), -1.5f);
    const double highest = static_cast<double>(*std::ranges::max_element(x));
    double exact = 0;
    for (const float each : x) exact += std::exp(static_cast<double>(each) - highest);
    EXPECT_NEAR(exponentials(x.data(), count), exact, bound(count, exact) + 3e-7 * exact) << count;
    EXPECT_NEAR(exponentials(equal.data(), count), static_cast<double>(count), kEps * static_cast<double>(count));
  }
  // Only keys that would add zeros are left out.
  constexpr Index kCount = 20'000;
  const std::vector<Range> ranges = {{8, 16}, {4'088, 4'104}, {8'192, 12'300}, {19'992, kCount}};
  std::vector<float> x = randomFloats(kCount, 4), some;
  Index next = 0;
  for (const Range& range : ranges) {
    std::fill(x.begin() + next, x.begin() + range.begin, -kInfinity);
    some.insert(some.end(), x.begin() + range.begin, x.begin() + range.end);
    next = range.end;
  }
  some.resize(some.size() + 8, -kInfinity);  // padded like scores
  EXPECT_EQ(exponentials(some.data(), static_cast<Index>(some.size()), ranges), exponentials(x.data(), kCount));
}

TEST(LongSums, OfAttentionAreWithinTheBound) {
  constexpr Index kWidth = 4;
  for (const Index keys : {Index{513}, Index{8'192}, Index{8'195}, Index{262'144}}) {
    for (const bool is_equal : {true, false}) {
      const RowMajorMatrix query = randomMatrix(3, kWidth, 1);
      RowMajorMatrix key = randomMatrix(keys, kWidth, 2), value = randomMatrix(keys, kWidth, 3);
      if (is_equal) {
        key.setConstant(0.3f);
        value.setConstant(0.7f);
      }
      RowMajorMatrix output(3, kWidth);
      Context context;
      attention({valueOf(query), valueOf(key), valueOf(value), Sequences::uniform(1, 3), Sequences::uniform(1, keys)},
                1, {}, {window(output), nullptr}, context);
      const reference::Matrix exact = reference::attention(query.cast<double>(), key.cast<double>(),
                                                           value.cast<double>(), 0.5, reference::Matrix::Zero(3, keys))
                                          .output;
      // The weights add up to 1, and values are below 1. Their own error is that of exp and of the scores.
      for (Index i = 0; i < output.size(); ++i)
        EXPECT_NEAR(output.data()[i], exact.data()[i], bound(keys, 0.7) + 5e-7) << keys << " keys";
    }
  }
}

TEST(LongSums, OfNormsAreWithinTheBound) {
  for (const Index width : {Index{8'191}, Index{8'192}, Index{8'193}, Index{300'001}}) {
    const RowMajorMatrix x = randomMatrix(2, width, 1).array() + 3;
    RowMajorMatrix y(2, width);
    layerNorm(window(x), nullptr, nullptr, 1e-5f, window(y));
    const reference::RowVector one = reference::RowVector::Ones(width), zero = reference::RowVector::Zero(width);
    EXPECT_LT((y.cast<double>() - reference::layerNorm(x.cast<double>(), one, zero, 1e-5f)).cwiseAbs().maxCoeff(),
              2e-6);
    rmsNorm(window(x), nullptr, 0, 1e-5f, window(y));
    EXPECT_LT((y.cast<double>() - reference::rmsNorm(x.cast<double>(), one, 1e-5f)).cwiseAbs().maxCoeff(), 1e-6);
  }
}

TEST(LongSums, OfPoolingAreWithinTheBound) {
  for (const Index rows : {Index{512}, Index{513}, Index{8'192}, Index{262'144}}) {
    RowMajorMatrix x = randomMatrix(rows, 67, 1).array() + 1;
    x.col(66).setConstant(0.1f);
    RowMajorMatrix y(1, 67);
    pool(valueOf(x).values(), Sequences::uniform(1, rows), {}, Pooling::kMean, window(y));
    const reference::RowVector exact = reference::pool(x.cast<double>(), Eigen::VectorXd::Ones(rows));
    for (Index c = 0; c < 67; ++c) EXPECT_NEAR(y(0, c), exact(c), bound(rows, exact(c)));
    // Up to kSumBlock rows, they are added one after the other.
    if (rows > kSumBlock) continue;
    float sum = 0;
    for (Index i = 0; i < rows; ++i) sum += x(i, 5);
    EXPECT_EQ(y(0, 5), sum / static_cast<float>(rows));
  }
}

}  // namespace
}  // namespace heed
