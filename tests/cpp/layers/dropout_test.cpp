#include "heed/dropout.h"

#include <cmath>

#include "dropout_row.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

TEST(Dropout, KeepsAboutOneMinusPOfAMillionEntries) {
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    const RowMajorMatrix x = RowMajorMatrix::Ones(1000, 1000);
    RowMajorMatrix y(1000, 1000);
    dropout(window(x), {.p = p, .scaling = DropoutScaling::kNone}, {.seed = 1}, window(y));
    const double kept = static_cast<double>(y.cast<double>().sum()) / 1e6;
    EXPECT_NEAR(kept, 1 - p, 4 * std::sqrt(p * (1 - p) / 1e6));
  }
}

TEST(Dropout, InvertedScalingDividesKeptEntries) {
  const RowMajorMatrix x = randomMatrix(7, 9, 1);
  RowMajorMatrix plain(7, 9), inverted(7, 9);
  dropout(window(x), {.p = 0.2f, .scaling = DropoutScaling::kNone}, {.seed = 3}, window(plain));
  dropout(window(x), {.p = 0.2f, .scaling = DropoutScaling::kInverted}, {.seed = 3}, window(inverted));
  expectNear(inverted, plain / 0.8f);
  for (Index i = 0; i < x.size(); ++i) EXPECT_TRUE(plain.data()[i] == 0 || plain.data()[i] == x.data()[i]);
  EXPECT_TRUE((plain.array() == 0).any());
}

TEST(Dropout, WorksInPlaceAndOnStridedViews) {
  RowMajorMatrix x = randomMatrix(4, 6, 1), y(4, 3);
  const RowMajorMatrix left = x.leftCols(3);
  dropout(window(left), {.p = 0.5f, .scaling = DropoutScaling::kInverted}, {.seed = 3}, window(y));
  const MatrixView part = view(x.data(), 4, 3, 6);
  const RowMajorMatrix right = x.rightCols(3);
  dropout(readOnly(part), {.p = 0.5f, .scaling = DropoutScaling::kInverted}, {.seed = 3}, part);
  expectSame(x.leftCols(3), y);
  expectSame(x.rightCols(3), right);
}

TEST(Dropout, DrawsOnEveryTrainingCallAndIsTheIdentityOtherwise) {
  Dropout layer({.p = 0.5f});
  const RowMajorMatrix x = randomMatrix(10, 10, 1);
  Inference in;
  const auto forward = [&]() -> RowMajorMatrix { return layer.forward(in.e, in(x)).values(); };
  expectSame(forward(), x);
  layer.setTraining(true);
  layer.seed(1);
  const RowMajorMatrix first = forward();
  EXPECT_NE(first, forward());
  layer.seed(1);
  expectSame(forward(), first);
  layer.setTraining(false);
  expectSame(forward(), x);
  EXPECT_EQ(layer.parameterCount(), 0);
}

TEST(Dropout, RateOneGivesZeros) {
  const RowMajorMatrix x = randomMatrix(3, 5, 1);
  for (const DropoutScaling scaling : {DropoutScaling::kInverted, DropoutScaling::kNone}) {
    RowMajorMatrix y(3, 5);
    dropout(window(x), {.p = 1, .scaling = scaling}, {}, window(y));
    expectSame(y, RowMajorMatrix::Zero(3, 5));
  }
}

TEST(Dropout, DrawsDependOnTheEntrysPosition) {
  const RowMajorMatrix ones = RowMajorMatrix::Ones(9, 13);
  RowMajorMatrix all(9, 13), part(4, 6);
  const DropoutKey key{.seed = 7, .step = 3};
  dropout(window(ones), {.p = 0.5f, .scaling = DropoutScaling::kNone}, key, window(all));
  const RowMajorMatrix fewer = RowMajorMatrix::Ones(4, 6);
  dropout(window(fewer), {.p = 0.5f, .scaling = DropoutScaling::kNone}, key, window(part));
  expectSame(part, all.topLeftCorner(4, 6));
  dropout(window(fewer), {.p = 0.5f, .scaling = DropoutScaling::kNone}, key, window(part), 5, 6);
  expectSame(part, all.block(5, 6, 4, 6));
  for (Index column = 12; column >= 0; --column) {  // in any order
    DropoutRow draws(key, 0, 0, 8);
    EXPECT_EQ(draws.drops(column, 0.5f), all(8, column) == 0);
  }
  // A different seed, step, sequence, head or row gives different draws.
  const auto drawn = [](const DropoutKey& k, Index sequence, Index head, Index row) {
    DropoutRow draws(k, sequence, head, row);
    std::string bits;
    for (Index column = 0; column < 64; ++column) bits += draws.drops(column, 0.5f) ? '0' : '1';
    return bits;
  };
  const std::string bits = drawn(key, 0, 0, 0);
  EXPECT_EQ(drawn(key, 0, 0, 0), bits);
  EXPECT_NE(drawn({.seed = 8, .step = 3}, 0, 0, 0), bits);
  EXPECT_NE(drawn({.seed = 7, .step = 4}, 0, 0, 0), bits);
  EXPECT_NE(drawn(key, 1, 0, 0), bits);
  EXPECT_NE(drawn(key, 0, 1, 0), bits);
  EXPECT_NE(drawn(key, 0, 0, 1), bits);
}

TEST(Dropout, RejectsRatesOutsideZeroToOne) {
  const RowMajorMatrix x = randomMatrix(2, 2, 1);
  RowMajorMatrix y(2, 2), wide(2, 3);
  for (const float p : {-0.1f, 1.1f, 2.0f, std::nanf("")}) {
    expectError(ErrorCode::kInvalidArgument, "p: expected a rate in [0, 1], got ",
                [&] { dropout(window(x), {.p = p, .scaling = DropoutScaling::kNone}, {}, window(y)); });
    expectError(ErrorCode::kInvalidArgument, "p: expected a rate in [0, 1], got ", [&] { Dropout layer({.p = p}); });
  }
  expectError(ErrorCode::kShapeMismatch, "output: expected [2, 2], got shape [2, 3]",
              [&] { dropout(window(x), {.p = 0}, {}, window(wide)); });
}

}  // namespace
}  // namespace heed
