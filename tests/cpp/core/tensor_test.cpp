#include "heed/tensor.h"

#include "support.h"

namespace heed {
namespace {

using namespace test;

TEST(Shape, RejectsAxesThatItDoesNotHave) {
  const Shape scalar{}, matrix{2, 3};
  EXPECT_EQ(matrix[-2], 2);
  EXPECT_EQ(matrix[1], 3);
  expectError(ErrorCode::kShapeMismatch, "shape: expected at least 1 axes, got shape []", [&] { (void)scalar[-1]; });
  expectError(ErrorCode::kShapeMismatch, "shape: expected at least 1 axes, got shape []", [&] { (void)scalar[0]; });
  expectError(ErrorCode::kShapeMismatch, "shape: expected at least 3 axes, got shape [2, 3]",
              [&] { (void)matrix[-3]; });
  expectError(ErrorCode::kShapeMismatch, "shape: expected at least 3 axes, got shape [2, 3]", [&] { (void)matrix[2]; });
}

TEST(Shape, IsAMatrixWhoseColumnsAreTheLastAxis) {
  EXPECT_EQ(Shape{}.rows(), 1);
  EXPECT_EQ(Shape{}.columns(), 1);
  EXPECT_EQ(Shape{7}.rows(), 1);
  EXPECT_EQ(Shape{7}.columns(), 7);
  EXPECT_EQ((Shape{2, 3, 5}.rows()), 6);
  EXPECT_EQ((Shape{2, 3, 5}.columns()), 5);
  EXPECT_EQ((Shape{4, 0}.rows()), 4);
}

TEST(Sequences, KeepTheLengthOfAnEmptyBatch) {
  EXPECT_EQ(Sequences::uniform(0, 5).maxLength(), 0);
  EXPECT_EQ(Sequences::uniform(0, 5).batchLength(), 5);
  EXPECT_EQ(Sequences::uniform(2, 5).batchLength(), 5);
  EXPECT_EQ(Sequences::ofLengths({2, 7, 1}).batchLength(), 7);
  EXPECT_EQ(Sequences::ofLengths({}).batchLength(), 0);
}

}  // namespace
}  // namespace heed
