#include <functional>

#include "gradients.h"
#include "heed/train/ops.h"

namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::Matrix;
using train::Node;
using train::ParameterGradients;
using train::Variable;

TEST(TrainBackward, SharedNodesRunOncePerPass) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix values = randomMatrix(3, 5, 1), ones = RowMajorMatrix::Constant(3, 5, 1);
  const Variable x = leaf(graph, values);
  const Variable square = train::multiply(graph, x, x);
  const Variable sum = train::add(graph, square, train::multiply(graph, square, x));  // x^2 + x^3
  Backward::run(graph, sum, window(ones));
  const RowMajorMatrix once = (2 * values.array() + 3 * values.array().square()).matrix();
  expectNear(gradientOf(x), once);
  // A second pass over the same nodes adds to the leaf.
  Backward::run(graph, sum, window(ones));
  expectNear(gradientOf(x), 2 * once);
}

TEST(TrainBackward, ExternalNodesAreComputedByTheCaller) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix values = randomMatrix(2, 3, 1), ones = RowMajorMatrix::Constant(2, 3, 1);
  const Variable x = leaf(graph, values);
  const auto tag = std::make_shared<int>(7);
  const Variable y = graph.recordExternal(Matrix(window(values)), {x}, tag);
  const Variable z = train::add(graph, train::scale(graph, y, 2), x);
  Backward pass(graph, z, Matrix(window(ones)));
  Matrix gradient;
  const std::shared_ptr<Node> node = pass.proceed(gradient);
  ASSERT_TRUE(node);
  EXPECT_EQ(node->external, tag);
  expectNear(gradient.values(), 2 * ones);
  gradient.view() *= 5;
  pass.give(node->inputs[0], std::move(gradient));
  Matrix rest;
  EXPECT_FALSE(pass.proceed(rest));
  expectNear(gradientOf(x), RowMajorMatrix(11 * ones));
  EXPECT_THROW(Backward::run(graph, z, window(ones)), Error);
}

TEST(TrainBackward, APassThatEndsEarlyLeavesNothingBehind) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix values = randomMatrix(2, 3, 1), ones = RowMajorMatrix::Constant(2, 3, 1);
  const Variable x = leaf(graph, values);
  const Variable doubled = train::scale(graph, x, 2);
  const Variable external = graph.recordExternal(Matrix(window(values)), {doubled}, std::make_shared<int>(1));
  const Variable sum = train::add(graph, doubled, external);
  {
    Backward pass(graph, sum, Matrix(window(ones)));
    Matrix gradient;
    EXPECT_TRUE(pass.proceed(gradient));  // `doubled` has half of its gradient now
  }
  EXPECT_FALSE(doubled.node()->gradient.data());
  Backward::run(graph, doubled, window(ones));
  expectNear(gradientOf(x), RowMajorMatrix(2 * ones));
}

/// Records y = x; `ran` is called in the backward pass. The result's value can be watched for being freed.
Variable recordIdentity(Graph& graph, const Variable& x, std::function<void()> ran) {
  return graph.record(Matrix(x.value()), {x}, false, [x, ran = std::move(ran)](Matrix& dy, Backward& pass) {
    ran();
    pass.give(x.node(), std::move(dy));
  });
}

TEST(TrainBackward, FreesWhatAnOperationKeepsAsSoonAsItHasRun) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix ones = RowMajorMatrix::Constant(2, 3, 1);
  const Variable x = leaf(graph, randomMatrix(2, 3, 1));
  std::weak_ptr<const Matrix> kept;
  std::vector<bool> freed;
  const auto output = [&] {
    const Variable a = recordIdentity(graph, x, [&] { freed.push_back(kept.expired()); });
    const Variable b = recordIdentity(graph, a, [&] { freed.push_back(kept.expired()); });
    kept = b.shared();
    // Two users of b: the pass queues it twice.
    return train::add(graph, recordIdentity(graph, b, [] {}), recordIdentity(graph, b, [] {}));
  };
  Backward::run(graph, output(), window(ones));
  EXPECT_EQ(freed, (std::vector<bool>{true, true}));
}

TEST(TrainBackward, KeepsWhatAnotherLossNeeds) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix ones = RowMajorMatrix::Constant(2, 3, 1);
  const Variable x = leaf(graph, randomMatrix(2, 3, 1));
  Variable shared = train::multiply(graph, x, x);
  Variable loss = train::scale(graph, shared, 2), other = train::scale(graph, shared, 3);
  shared = {};
  Backward::run(graph, std::move(loss), window(ones));
  Backward::run(graph, std::move(other), window(ones));
  expectNear(gradientOf(x), RowMajorMatrix(10 * x.value()));
}

TEST(TrainBackward, IsDroppedWithoutRecursion) {
  Context context;
  Graph graph(context);
  Variable x = leaf(graph, randomMatrix(1, 1, 1));
  for (int i = 0; i < 200'000; ++i) x = train::scale(graph, x, 1);
  x = Variable();  // a recursion of this depth would overflow the stack
  SUCCEED();
}

TEST(TrainBackward, GradientsOfSingleParameters) {
  Context context;
  Graph graph(context);
  Linear layer({.in_features = 3, .out_features = 2});
  ParameterGradients gradients(layer);
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6}, bias = {3, 4};
  gradients.add(0, 0, 2, rows.data());
  gradients.add(1, 0, 2, bias.data());
  EXPECT_EQ(gradients.sumOfSquares(0), 91);
  EXPECT_EQ(gradients.sumOfSquares(1), 25);
  gradients.scale(1, 2);
  EXPECT_EQ(gradients.sumOfSquares(1), 100);
  gradients.zero(0);
  EXPECT_FALSE(gradients.hasGradient(0));
  EXPECT_TRUE(gradients.hasGradient(1));
  EXPECT_EQ(gradients.sumOfSquares(0), 0);
}

}  // namespace
}  // namespace heed::test
