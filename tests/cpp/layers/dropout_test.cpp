#include "heed/dropout.h"

#include <cmath>

#include "support.h"

namespace heed {
namespace {

using namespace test;

TEST(Dropout, KeepsAboutOneMinusPOfAMillion) {
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    const RowMajorMatrix x = RowMajorMatrix::Ones(1000, 1000);
    RowMajorMatrix y(1000, 1000);
    Generator generator(1);
    dropout(window(x), p, DropoutScaling::kNone, generator, window(y));
    const double kept = static_cast<double>(y.cast<double>().sum()) / 1e6;
    EXPECT_NEAR(kept, 1 - p, 4 * std::sqrt(p * (1 - p) / 1e6));
  }
}

TEST(Dropout, InvertedDividesWhatItKeeps) {
  const RowMajorMatrix x = randomMatrix(7, 9, 1);
  RowMajorMatrix plain(7, 9), inverted(7, 9);
  Generator a(3), b(3);
  dropout(window(x), 0.2f, DropoutScaling::kNone, a, window(plain));
  dropout(window(x), 0.2f, DropoutScaling::kInverted, b, window(inverted));
  expectNear(inverted, plain / 0.8f);
  for (Index i = 0; i < x.size(); ++i) EXPECT_TRUE(plain.data()[i] == 0 || plain.data()[i] == x.data()[i]);
  EXPECT_TRUE((plain.array() == 0).any());
}

TEST(Dropout, WorksInPlaceAndByRowsOfViews) {
  RowMajorMatrix x = randomMatrix(4, 6, 1), y(4, 3);
  Generator a(3), b(3);
  const RowMajorMatrix left = x.leftCols(3);
  dropout(window(left), 0.5f, DropoutScaling::kInverted, a, window(y));
  const MatrixView part = view(x.data(), 4, 3, 6);
  const RowMajorMatrix right = x.rightCols(3);
  dropout(readOnly(part), 0.5f, DropoutScaling::kInverted, b, part);
  expectSame(x.leftCols(3), y);
  expectSame(x.rightCols(3), right);
}

TEST(Dropout, DrawsAnewInTrainingAndIsTheIdentityOtherwise) {
  Dropout layer({.p = 0.5f});
  const RowMajorMatrix x = randomMatrix(10, 10, 1);
  RowMajorMatrix first(10, 10), second(10, 10);
  layer.forward(window(x), window(first));
  expectSame(first, x);
  layer.setTraining(true);
  layer.seed(1);
  layer.forward(window(x), window(first));
  layer.forward(window(x), window(second));
  EXPECT_NE(first, second);
  layer.seed(1);
  layer.forward(window(x), window(second));
  expectSame(second, first);
  layer.setTraining(false);
  layer.forward(window(x), window(first));
  expectSame(first, x);
  EXPECT_EQ(layer.parameterCount(), 0);
}

TEST(Dropout, RefusesRatesOutsideZeroToOne) {
  const RowMajorMatrix x = randomMatrix(2, 2, 1);
  RowMajorMatrix y(2, 2), wide(2, 3);
  Generator generator(1);
  for (const float p : {-0.1f, 1.0f, 2.0f, std::nanf("")}) {
    expectError(ErrorCode::kInvalidArgument, "p: got ",
                [&] { dropout(window(x), p, DropoutScaling::kNone, generator, window(y)); });
    expectError(ErrorCode::kInvalidArgument, "p: got ", [&] { Dropout layer({.p = p}); });
  }
  expectError(ErrorCode::kShapeMismatch, "output: got shape [2, 3]; expected [2, 2]",
              [&] { Dropout({.p = 0}).forward(window(x), window(wide)); });
}

}  // namespace
}  // namespace heed
