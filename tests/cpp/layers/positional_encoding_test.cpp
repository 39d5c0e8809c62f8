#include "heed/positional_encoding.h"

#include <cmath>
#include <limits>

#include "ops/reference.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

TEST(PositionalEncoding, MatchesHandComputedValues) {
  RowMajorMatrix y(3, 5);
  positionalEncoding(100, window(y));
  // Frequencies 1, 100^(-2/5), 100^(-4/5); an odd width ends with a sine.
  expectSame(y.topRows(1), matrix({{0, 1, 0, 1, 0}}));
  expectNear(y.rightCols(1),
             matrix({{0}, {std::sin(std::pow(100.0f, -0.8f))}, {std::sin(2 * std::pow(100.0f, -0.8f))}}));
  expectNear(y, reference::positionalEncoding(3, 5, 100).cast<float>());
}

TEST(PositionalEncoding, MatchesTheFormulaInDouble) {
  for (const Index width : {1, 2, 7, 64}) {
    RowMajorMatrix all(1500, width);
    positionalEncoding(10000, window(all));
    expectNear(all, reference::positionalEncoding(1500, width, 10000).cast<float>());
  }
}

TEST(Rotary, MatchesTheFormulaInDouble) {
  const RowMajorMatrix x = randomMatrix(9, 12, 1);
  RowMajorMatrix y = x;
  Rotary(6, 2000, 10000, Rotary::Pairing::kHalfSplit).rotate(window(y), 2, 1990);
  for (Index h = 0; h < 2; ++h) {
    expectNear(y.middleCols(6 * h, 6),
               reference::rotary(x.middleCols(6 * h, 6).cast<double>(), 1990, 10000).cast<float>());
  }
}

TEST(PositionalEncoding, StartsAtAnyPosition) {
  RowMajorMatrix all(9, 6), rest(5, 6);
  positionalEncoding(10000, window(all));
  positionalEncoding(10000, window(rest), 4);
  expectSame(rest, all.bottomRows(5));
}

TEST(PositionalEncoding, DotProductsDependOnTheDistanceAndPeakAtZero) {
  RowMajorMatrix y(50, 64);
  positionalEncoding(10000, window(y));
  const RowMajorMatrix dots = y * y.transpose();
  for (Index i = 0; i + 10 < 50; ++i) {
    EXPECT_NEAR(dots(i, i), 32, 1e-4);  // sin^2 + cos^2, 32 times
    EXPECT_NEAR(dots(i, i + 10), dots(0, 10), 1e-3);
    EXPECT_GT(dots(i, i), dots(i, i + 1));
    EXPECT_GT(dots(i, i + 1), dots(i, i + 10));
  }
}

TEST(PositionalEncoding, AddsOrAppendsToEverySequence) {
  const Sequences s = Sequences::ofLengths({2, 0, 3});
  const RowMajorMatrix x = randomMatrix(5, 4, 1);
  RowMajorMatrix rows(3, 4), added = x, appended(5, 8);
  positionalEncoding(10000, window(rows));
  const PositionalEncoding add({.embed_dim = 4, .max_length = 3});
  const PositionalEncoding append({.embed_dim = 4, .max_length = 3, .mode = PositionalEncodingOptions::Mode::kConcat});
  add.forward(window(std::as_const(added)), s, window(added));
  append.forward(window(x), s, window(appended));
  RowMajorMatrix expected(5, 4);
  expected << rows.topRows(2), rows;
  expectSame(appended.leftCols(4), x);
  expectSame(appended.rightCols(4), expected);
  expectSame(added, x + expected);
}

TEST(PositionalEncoding, LearnedTableIsAParameter) {
  PositionalEncoding learned({.embed_dim = 4, .max_length = 6, .learned = true}),
      fixed({.embed_dim = 4, .max_length = 6});
  EXPECT_EQ(names(learned), std::vector<std::string>{"weight [6, 4]"});
  EXPECT_EQ(fixed.parameterCount(), 0);
  const RowMajorMatrix table = randomMatrix(6, 4, 1), x = randomMatrix(3, 4, 2);
  write(learned, "weight", table);
  RowMajorMatrix y(3, 4);
  learned.forward(window(x), Sequences::uniform(1, 3), window(y));
  expectSame(y, x + table.topRows(3));
}

TEST(PositionalEncoding, RejectsInvalidArguments) {
  using enum ErrorCode;
  RowMajorMatrix y(4, 4);
  for (const double base : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expectError(kInvalidArgument, "base: expected a finite number > 0, got ",
                [&] { positionalEncoding(base, window(y)); });
  }
  expectError(kInvalidArgument, "embedDim: expected at least 1, got 0",
              [] { PositionalEncoding layer({.embed_dim = 0, .max_length = 3}); });
  expectError(kInvalidArgument, "maxLength: expected at least 1, got 0",
              [] { PositionalEncoding layer({.embed_dim = 4, .max_length = 0}); });
  expectError(kOutOfMemory, "weight: expected a size that fits into 4 GB of memory, got shape [1073741824, 4]",
              [] { PositionalEncoding layer({.embed_dim = 4, .max_length = 1 << 30}); });
  const PositionalEncoding layer({.embed_dim = 4, .max_length = 3});
  const RowMajorMatrix x = randomMatrix(4, 4, 1), narrow = randomMatrix(3, 3, 1);
  expectError(kShapeMismatch, "x: expected at most 3 positions (maxLength), got 4",
              [&] { layer.forward(window(x), Sequences::uniform(1, 4), window(y)); });
  expectError(kShapeMismatch, "x: expected [3, 4], got shape [4, 4]",
              [&] { layer.forward(window(x), Sequences::uniform(1, 3), window(y)); });
  expectError(kOutOfMemory, "x: expected a size that fits into 4 GB", [] {
    const PositionalEncoding append(
        {.embed_dim = 4, .max_length = 3, .mode = PositionalEncodingOptions::Mode::kConcat});
    (void)append.outputWidth(std::numeric_limits<Index>::max());
  });
  expectError(kShapeMismatch, "x: expected width 4 (embedDim), got width 3",
              [&] { layer.forward(window(narrow), Sequences::uniform(1, 3), window(y)); });
}

TEST(Rotary, MatchesHandComputedValues) {
  // Two pairs at position 2: angles 2 and 2 / sqrt(100) = 0.2.
  RowMajorMatrix half = matrix({{1, 0, 0, 1}}), interleaved = half;
  Rotary(4, 3, 100, Rotary::Pairing::kHalfSplit).rotate(window(half), 1, 2);
  Rotary(4, 3, 100, Rotary::Pairing::kInterleaved).rotate(window(interleaved), 1, 2);
  const float c1 = std::cos(2.0f), s1 = std::sin(2.0f), c2 = std::cos(0.2f), s2 = std::sin(0.2f);
  expectNear(half, matrix({{c1, -s2, s1, c2}}));         // pairs (0, 2) and (1, 3)
  expectNear(interleaved, matrix({{c1, s1, -s2, c2}}));  // pairs (0, 1) and (2, 3)
}

TEST(Rotary, RotatesEveryHeadEquallyAndLeavesOtherFeatures) {
  const RowMajorMatrix head = randomMatrix(5, 7, 1);
  RowMajorMatrix two(5, 14), one = head;
  two << head, head;
  const Rotary rotary(4, 5, 10000, Rotary::Pairing::kHalfSplit);
  rotary.rotate(window(one), 1);
  rotary.rotate(window(two), 2);
  expectSame(two.leftCols(7), one);
  expectSame(two.rightCols(7), one);
  expectSame(one.rightCols(3), head.rightCols(3));
  expectSame(one.topRows(1), head.topRows(1));  // position 0 is not rotated
}

TEST(Rotary, DotProductsDependOnlyOnDistance) {
  for (const auto pairing : {Rotary::Pairing::kHalfSplit, Rotary::Pairing::kInterleaved}) {
    const Rotary rotary(6, 100, 50, pairing);
    const auto dot = [&](Index i, Index j) {
      RowMajorMatrix q = randomMatrix(1, 6, 1), k = randomMatrix(1, 6, 2);
      rotary.rotate(window(q), 1, i);
      rotary.rotate(window(k), 1, j);
      return q.row(0).dot(k.row(0));
    };
    EXPECT_NEAR(dot(3, 7), dot(90, 94), 1e-5);
    EXPECT_GT(std::abs(dot(3, 7) - dot(3, 8)), 1e-3);
  }
}

TEST(Rotary, PreservesLengths) {
  RowMajorMatrix x = randomMatrix(40, 8, 1);
  const RowMajorMatrix before = x.rowwise().norm();
  Rotary(8, 40, 10000, Rotary::Pairing::kInterleaved).rotate(window(x), 1);
  expectNear(x.rowwise().norm(), before);
}

TEST(Rotary, HasTablesOnlyForThePositionsFromTheFirstOne) {
  for (const auto pairing : {Rotary::Pairing::kHalfSplit, Rotary::Pairing::kInterleaved}) {
    const RowMajorMatrix x = randomMatrix(3, 8, 1);
    RowMajorMatrix all = x, some = x;
    Rotary(8, 70'003, 10000, pairing).rotate(window(all), 1, 70'000);
    const Rotary own(8, 3, 10000, pairing, 1, 70'000);
    own.rotate(window(some), 1, 70'000);
    expectSame(some, all);
    expectError(ErrorCode::kInvalidArgument, "rotary: expected positions from 70000 to 70002, got 69999 to 70001",
                [&] { own.rotate(window(some), 1, 69'999); });
    expectError(ErrorCode::kInvalidArgument, "rotary: expected positions from 70000 to 70002, got 70001 to 70003",
                [&] { own.rotate(window(some), 1, 70'001); });
  }
  // The last position of all. Tables from 0 would take 8 GB.
  constexpr Index kLast = std::numeric_limits<int32_t>::max() - 1;
  RowMajorMatrix x = matrix({{1, 0}});
  Rotary(2, 1, 10000, Rotary::Pairing::kHalfSplit, 1, kLast).rotate(window(x), 1, kLast);
  expectNear(x, matrix({{static_cast<float>(std::cos(2147483646.0)), static_cast<float>(std::sin(2147483646.0))}}));
  expectError(ErrorCode::kInvalidArgument, "firstPosition: expected an integer from 0 to ",
              [] { Rotary(2, 2, 100, Rotary::Pairing::kHalfSplit, 1, std::numeric_limits<Index>::max() - 1); });
}

TEST(Rotary, GrowsWithTheSequences) {
  GrowingRotary growing(4, 100, Rotary::Pairing::kHalfSplit, 0.5, 1000);
  const std::shared_ptr<const Rotary> first = growing.tables(3);
  EXPECT_EQ(first->length(), 64);
  EXPECT_EQ(growing.tables(64), first);
  const std::shared_ptr<const Rotary> second = growing.tables(65);
  EXPECT_EQ(second->length(), 128);
  EXPECT_EQ(growing.tables(600)->length(), 1000);
  EXPECT_EQ(growing.tables(2000)->length(), 1000);
  const Rotary whole(4, 1000, 100, Rotary::Pairing::kHalfSplit, 0.5);
  const auto rotated = [](const Rotary& rotary, Index position) {
    RowMajorMatrix x = RowMajorMatrix::Ones(1, 4);
    rotary.rotate(window(x), 1, position);
    return x;
  };
  for (Index i = 0; i < 64; ++i) {
    expectSame(rotated(*first, i), rotated(whole, i));
    expectSame(rotated(*second, i), rotated(whole, i));
  }
}

TEST(Rotary, RejectsInvalidArguments) {
  using enum ErrorCode;
  const auto make = [](Index dim, Index length, double base) {
    return [=] { Rotary(dim, length, base, Rotary::Pairing::kHalfSplit); };
  };
  expectError(kInvalidArgument, "rotary.dim: expected an even number > 0, got 3", make(3, 4, 100));
  expectError(kInvalidArgument, "rotary.dim: expected an even number > 0, got 0", make(0, 4, 100));
  expectError(kInvalidArgument, "rotary.length: expected at least 0, got -1", make(4, -1, 100));
  expectError(kInvalidArgument, "base: expected a finite number > 0, got NaN", make(4, 4, std::nan("")));
  expectError(kOutOfMemory, "rotary: expected a size that fits into 4 GB of memory, got shape [1073741824, 2]",
              make(4, 1 << 30, 100));
  const Rotary rotary(4, 5, 100, Rotary::Pairing::kHalfSplit);
  RowMajorMatrix x = randomMatrix(6, 6, 1);
  expectError(kShapeMismatch, "rotary.dim: expected at most the width of a head, 6 / 2, got 4",
              [&] { rotary.rotate(window(x), 2); });
  expectError(kInvalidArgument, "rotary: expected positions from 0 to 4, got 0 to 5",
              [&] { rotary.rotate(window(x), 1); });
  expectError(kInvalidArgument, "rotary: expected positions from 0 to 4, got -1 to 4",
              [&] { rotary.rotate(window(x), 1, -1); });
}

}  // namespace
}  // namespace heed
