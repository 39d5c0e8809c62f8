#include <cmath>

#include "heed/attention.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

/// The slope of a head, which must be the same at every distance.
std::vector<float> slopes(Index heads) {
  const Index reach = 5;
  const PositionBias bias = alibiBias(heads, reach);
  EXPECT_EQ(static_cast<Index>(bias.values.size()), heads * (2 * reach + 1));
  std::vector<float> all;
  for (Index h = 0; h < heads; ++h) {
    const float* middle = bias.values.data() + h * (2 * reach + 1) + reach;
    all.push_back(-middle[1]);
    for (Index d = -reach; d <= reach; ++d) EXPECT_EQ(middle[d], -all.back() * static_cast<float>(std::abs(d)));
  }
  return all;
}

TEST(AlibiBias, SlopesMatchThePaper) {
  EXPECT_EQ(slopes(8),
            (std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f, 0.00390625f}));
  EXPECT_EQ(slopes(1), std::vector<float>{0.00390625f});
  // Not a power of two: 2^-2, 2^-4, 2^-6, 2^-8 as for four heads, then 2^-1, 2^-3 as for eight.
  EXPECT_EQ(slopes(6), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  EXPECT_NEAR(slopes(16)[0], std::exp2(-0.5), 1e-7);
}

/// The smallest distance i - j in each bucket that is used.
std::vector<Index> firstDistances(Index num_buckets, Index bucket_distance, bool bidirectional) {
  RowMajorMatrix table(num_buckets, 1);
  for (Index b = 0; b < num_buckets; ++b) table(b, 0) = static_cast<float>(b);
  const Index reach = 1199;
  const PositionBias bias = relativeBias(window(std::as_const(table)), reach, bucket_distance, bidirectional);
  std::vector<Index> first;
  float last = -1;
  for (Index back = 0; back <= reach; ++back) {
    const float bucket = bias.values[static_cast<size_t>(reach - back)];
    if (back > 0) {
      const float ahead = bias.values[static_cast<size_t>(reach + back)];
      EXPECT_EQ(ahead, bidirectional ? bucket + static_cast<float>(num_buckets / 2) : 0);
    }
    if (bucket != last) first.push_back(back);
    last = bucket;
  }
  return first;
}

TEST(RelativeBias, BucketsMatchTransformers) {
  // Computed with T5Attention._relative_position_bucket in PyTorch 1.13; MPNet uses the same function.
  EXPECT_EQ(firstDistances(32, 128, true), (std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}));
  EXPECT_EQ(firstDistances(32, 128, false),
            (std::vector<Index>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}));
  EXPECT_EQ(firstDistances(32, 512, true),
            (std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8, 14, 23, 39, 64, 108, 182, 305}));
  EXPECT_EQ(firstDistances(64, 256, true),
            (std::vector<Index>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,  12,  13,  14,  15,
                                16, 20, 23, 27, 32, 39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216}));
  EXPECT_EQ(firstDistances(10, 20, true), (std::vector<Index>{0, 1, 2, 5, 10}));
  EXPECT_EQ(firstDistances(5, 9, false), (std::vector<Index>{0, 1, 2, 4, 6}));
}

TEST(RelativeBias, TableColumnsAreHeads) {
  const RowMajorMatrix table = randomMatrix(8, 3, 1);
  const PositionBias bias = relativeBias(window(table), 4, 16, true);
  for (Index h = 0; h < 3; ++h) {
    EXPECT_EQ(bias.values[static_cast<size_t>(h * 9 + 4)], table(0, h));  // j = i
    EXPECT_EQ(bias.values[static_cast<size_t>(h * 9 + 5)], table(5, h));  // j = i + 1: the second side's second bucket
  }
}

TEST(PositionBias, RejectsInvalidArguments) {
  using enum ErrorCode;
  const RowMajorMatrix odd = randomMatrix(7, 2, 1), few = randomMatrix(2, 2, 1), good = randomMatrix(8, 2, 1);
  expectError(kInvalidArgument, "numHeads: expected at least 1, got 0", [] { alibiBias(0, 3); });
  expectError(kInvalidArgument, "maxDistance: expected at least 0, got -1", [] { alibiBias(2, -1); });
  expectError(kOutOfMemory, "alibi: expected a size that fits into 4 GB of memory, got shape [1024, 2, 1048576]",
              [] { alibiBias(1024, 1 << 20); });
  expectError(kShapeMismatch,
              "table: expected [buckets, H] with an even number of at least 4 buckets, got shape [7, 2]",
              [&] { relativeBias(window(odd), 3, 16, true); });
  expectError(kShapeMismatch,
              "table: expected [buckets, H] with an even number of at least 4 buckets, got shape [2, 2]",
              [&] { relativeBias(window(few), 3, 16, true); });
  expectError(kInvalidArgument, "maxDistance: expected at least 3, got 2",
              [&] { relativeBias(window(good), 3, 2, true); });
  expectError(kInvalidArgument, "length: expected at least 0, got -1",
              [&] { relativeBias(window(good), -1, 16, true); });
}

}  // namespace
}  // namespace heed
