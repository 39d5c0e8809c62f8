#include "heed/convolution.h"
#include "heed/error.h"
#include "heed/recurrent.h"
#include "support.h"

/// Convolution and recurrent layers; tests/fixtures/training/ compares them with PyTorch.
namespace heed {
namespace {

using namespace test;

template <class Layer>
RowMajorMatrix run(const Layer& layer, const RowMajorMatrix& x, const Sequences& sequences) {
  Inference in;
  return layer.forward(in.e, valueOf(x), sequences).values();
}

TEST(Recurrent, ASequenceDoesNotDependOnTheOthers) {
  for (const auto cell : {RecurrentOptions::Cell::kLstm, RecurrentOptions::Cell::kGru}) {
    Recurrent layer({.cell = cell, .input_size = 3, .hidden_size = 5, .num_layers = 2, .bidirectional = true});
    fillRandomly(layer, 7);
    const RowMajorMatrix x = randomMatrix(8, 3, 5);
    const RowMajorMatrix all = run(layer, x, Sequences::uniform(2, 4));
    EXPECT_EQ(all.cols(), 10);
    EXPECT_TRUE(all.allFinite());
    for (Index n = 0; n < 2; ++n)
      EXPECT_LT((run(layer, x.middleRows(4 * n, 4), Sequences::uniform(1, 4)) - all.middleRows(4 * n, 4)).norm(),
                1e-6f);
  }
}

TEST(Recurrent, TheFirstDirectionSeesOnlyEarlierRows) {
  Recurrent layer({.cell = RecurrentOptions::Cell::kLstm, .input_size = 2, .hidden_size = 3, .bidirectional = true});
  fillRandomly(layer, 3);
  RowMajorMatrix x = randomMatrix(5, 2, 6);
  const RowMajorMatrix before = run(layer, x, Sequences::uniform(1, 5));
  x.row(3).setConstant(2);
  const RowMajorMatrix after = run(layer, x, Sequences::uniform(1, 5));
  EXPECT_EQ(after.topLeftCorner(3, 3), before.topLeftCorner(3, 3));
  EXPECT_EQ(after.bottomRightCorner(1, 3), before.bottomRightCorner(1, 3));
  EXPECT_NE(after.row(3), before.row(3));
}

TEST(Recurrent, TakesNoRows) {
  const Recurrent layer({.cell = RecurrentOptions::Cell::kGru, .input_size = 2, .hidden_size = 3});
  EXPECT_EQ(run(layer, RowMajorMatrix(0, 2), Sequences::uniform(0, 4)).rows(), 0);
  EXPECT_EQ(run(layer, RowMajorMatrix(0, 2), Sequences::uniform(3, 0)).rows(), 0);
}

TEST(Convolution, RefusesAShorterSequenceAndGroupsThatDoNotDivide) {
  const Convolution layer({.in_channels = 2, .out_channels = 2, .windows = {.width = 3, .dilation = 2}});
  EXPECT_EQ(run(layer, RowMajorMatrix::Zero(5, 2), Sequences::uniform(1, 5)).rows(), 1);
  EXPECT_THROW(run(layer, RowMajorMatrix::Zero(4, 2), Sequences::uniform(1, 4)), Error);
  EXPECT_THROW(Convolution({.in_channels = 3, .out_channels = 2, .groups = 2, .windows = {.width = 1}}), Error);
  EXPECT_THROW(Convolution({.in_channels = 1, .out_channels = 1, .windows = {.width = 3, .dilation = 1 << 30}}), Error);
}

}  // namespace
}  // namespace heed
