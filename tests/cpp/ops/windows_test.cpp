#include "ops/windows.h"

#include <gtest/gtest.h>

#include <random>

#include "ops/reference.h"
#include "support.h"

namespace heed {
namespace {

TEST(Windows, TheirProductWithTheWeightIsTheConvolutionOfEachSequence) {
  constexpr Index kWidth = 5, kIn = 3, kOut = 4;
  const Sequences sequences = Sequences::ofLengths({1, 4, 0, 7});
  std::srand(3);
  const RowMajorMatrix x = RowMajorMatrix::Random(sequences.totalRows(), kIn);
  const RowMajorMatrix weight = RowMajorMatrix::Random(kOut, kIn * kWidth);
  RowMajorMatrix windows(x.rows(), kIn * kWidth);
  constexpr Windows kWindows{.width = kWidth, .before = 2, .after = 2};
  gatherWindows(view(x.data(), x.rows(), kIn), sequences, kWindows,
                view(windows.data(), windows.rows(), windows.cols()));
  const RowMajorMatrix product = windows * weight.transpose();

  std::vector<reference::Matrix> parts;
  for (Index k = 0; k < kWidth; ++k) {
    parts.emplace_back(kOut, kIn);
    for (Index o = 0; o < kOut; ++o) {
      for (Index e = 0; e < kIn; ++e) parts.back()(o, e) = static_cast<double>(weight(o, e * kWidth + k));
    }
  }
  for (Index n = 0; n < sequences.count(); ++n) {
    const Index begin = sequences.begin(n), length = sequences.length(n);
    const reference::Matrix own = x.middleRows(begin, length).cast<double>();
    const reference::Matrix expected = reference::convolution(own, parts, reference::RowVector::Zero(kOut));
    EXPECT_LT((product.middleRows(begin, length).cast<double>() - expected).cwiseAbs().sum(), 1e-5) << "sequence " << n;
  }
}

// <gather(x), y> = <x, scatter(y)>
TEST(Windows, ScatterIsTheTransposeOfGather) {
  constexpr Index kWidth = 3, kIn = 2;
  const Sequences sequences = Sequences::ofLengths({2, 5});
  std::srand(4);
  const RowMajorMatrix x = RowMajorMatrix::Random(7, kIn);
  for (const Windows& windows : {Windows{.width = kWidth, .before = 1, .after = 1},
                                 Windows{.width = kWidth, .stride = 2, .dilation = 2, .before = 3}}) {
    const Index rows = windowSequences(windows, sequences).totalRows();
    const RowMajorMatrix y = RowMajorMatrix::Random(rows, kIn * kWidth);
    RowMajorMatrix gathered(rows, kIn * kWidth), scattered = RowMajorMatrix::Zero(7, kIn);
    gatherWindows(view(x.data(), 7, kIn), sequences, windows, view(gathered.data(), rows, kIn * kWidth));
    scatterWindows(view(y.data(), rows, kIn * kWidth), sequences, windows, view(scattered.data(), 7, kIn));
    EXPECT_NEAR(gathered.cwiseProduct(y).sum(), x.cwiseProduct(scattered).sum(), 1e-5f);
  }
}

TEST(Windows, RejectPaddingBeyondTheRangeOfRows) {
  using test::expectError;
  const Windows windows{.width = 3, .before = 1'073'741'822, .after = 1'073'741'822};
  EXPECT_EQ(windows.count(0), 0);
  EXPECT_EQ(windows.count(3), 2'147'483'645);
  if constexpr (sizeof(Index) == 4) {
    expectError(ErrorCode::kInvalidArgument,
                "padding: expected at most 2147483647 rows with the padding, got 2147483648",
                [&] { (void)windowSequences(windows, Sequences::uniform(1, 4)); });
  }
}

}  // namespace
}  // namespace heed
