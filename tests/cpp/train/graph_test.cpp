#include "gemm/weights/float32.h"
#include "gradients.h"
#include "heed/train/ops.h"
#include "heed/train/recording_evaluator.h"
#include "loss_support.h"

namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::ParameterGradients;
using train::Variable;

TEST(TrainGraph, GradientsReachALeafOnEveryPath) {
  // x (x + 2 x)
  expectGradients(
      {randomMatrix(3, 9, 1)},
      [](Graph& graph, const auto& x) { return multiply(graph, x[0], add(graph, x[0], scale(graph, x[0], 2))); },
      [](const auto& x) -> DoubleMatrix { return 3 * x[0].cwiseProduct(x[0]); });
}

TEST(TrainGraph, ConsumedValuesAreRefused) {
  Context context;
  Graph graph(context);
  train::RecordingEvaluator e(graph);
  const RowMajorMatrix x = randomMatrix(3, 4, 1);
  const Value consumed = e.value(graph.leaf(train::Matrix(window(x)))), sum = e.add(consumed, e.copy(valueOf(x)));
  expectSame(e.variable(sum).value(), x + x);
  for (const auto& use : {std::function<void()>([&] { (void)e.variable(consumed); }),
                          {[&] { (void)e.take(consumed); }},
                          {[&] { (void)e.add(sum, consumed); }}})
    expectError(ErrorCode::kInvalidArgument, "value: expected a value that no operation has consumed", use);
}

TEST(TrainGraph, LossesThatShareANodeAddUp) {
  Linear layer({.in_features = 5, .out_features = 4, .activation = Activation::kTanh});
  fillRandomly(layer, 3);
  ParameterGradients gradients(layer);
  Context context;
  Graph graph(context);
  graph.add(gradients);
  const RowMajorMatrix x = randomMatrix(3, 5, 1), target = randomMatrix(3, 4, 2);
  const auto forward = [&] { return linear(graph, layer, graph.leaf(train::Matrix(window(x)))); };
  const auto first = [&](const Variable& y) { return crossEntropy(graph, y, {0, 3, 1}, {}); };
  const auto second = [&](const Variable& y) { return mse(graph, y, graph.leaf(train::Matrix(window(target)))); };
  // One backward pass of the sum, with a forward pass of its own.
  const Variable whole = forward();
  backward(graph, add(graph, first(whole), second(whole)));
  const RowMajorMatrix weight = gradientOf(gradients, "weight"), bias = gradientOf(gradients, "bias");
  // Two passes, in both orders.
  for (const bool swapped : {false, true}) {
    gradients.zero();
    EXPECT_FALSE(gradients.hasGradient(0));
    const Variable shared = forward();
    const Variable a = first(shared), b = second(shared);
    backward(graph, swapped ? b : a);
    backward(graph, swapped ? a : b);
    expectNear(gradientOf(gradients, "weight"), weight);
    expectNear(gradientOf(gradients, "bias"), bias);
  }
}

// As in PyTorch: a tensor that requires no gradient is not part of the graph, and a tensor that has been frozen since
// the forward pass accumulates none.
TEST(TrainGraph, GradientsAreThoseRequiredInBothPasses) {
  const RowMajorMatrix x = randomMatrix(3, 5, 1), ones = RowMajorMatrix::Ones(3, 5);
  for (unsigned choice = 0; choice < 64; ++choice) {
    SCOPED_TRACE(choice);
    const auto chosen = [choice](size_t parameter, unsigned time) {
      return (choice >> (2 * time + parameter) & 1) == 1;
    };
    Linear layer({.in_features = 5, .out_features = 5});
    LayerNorm norm({.normalized_shape = 5});
    ParameterGradients of_layer(layer), of_norm(norm);
    Context context;
    Graph graph(context);
    const auto require = [&](unsigned time) {
      for (ParameterGradients* gradients : {&of_layer, &of_norm}) {
        for (const size_t parameter : {0, 1}) gradients->setRequiresGradient(parameter, chosen(parameter, time));
      }
    };
    for (ParameterGradients* gradients : {&of_layer, &of_norm}) graph.add(*gradients);
    require(0);
    const Variable y = layerNorm(graph, norm, linear(graph, layer, leaf(graph, x)));
    require(1);  // requirements between the passes do not matter
    require(2);
    Backward::run(graph, y, window(ones));
    for (const size_t parameter : {0, 1}) {
      const bool expected = chosen(parameter, 0) && chosen(parameter, 2);
      EXPECT_EQ(of_layer.hasGradient(parameter), expected) << parameter;
      EXPECT_EQ(of_norm.hasGradient(parameter), expected) << parameter;
    }
    // A new forward pass uses the current requirements.
    graph.invalidate();
    Backward::run(graph, linear(graph, layer, leaf(graph, x)), window(ones));
    for (const size_t parameter : {0, 1}) EXPECT_EQ(of_layer.hasGradient(parameter), chosen(parameter, 2)) << parameter;
  }
}

TEST(TrainGraph, RefusesPassesFromBeforeTheParametersChanged) {
  Context context;
  Graph graph(context);
  const Variable y = scale(graph, leaf(graph, randomMatrix(1, 1, 1)), 2);
  const RowMajorMatrix two = RowMajorMatrix::Ones(1, 2);
  expectError(ErrorCode::kShapeMismatch, "gradient:", [&] { Backward::run(graph, y, window(two)); });
  graph.invalidate();
  expectError(ErrorCode::kInvalidArgument, "backward:", [&] { backward(graph, y); });
}

TEST(TrainGraph, RecordsNothingForConstants) {
  Context context;
  Graph graph(context);
  const RowMajorMatrix x = randomMatrix(2, 4, 1);
  const Variable constant = graph.leaf(train::Matrix(window(x)));
  EXPECT_FALSE(softmax(graph, constant).needsGradient());
  EXPECT_FALSE(gate(graph, constant, Activation::kSilu).needsGradient());
  EXPECT_FALSE(mse(graph, constant, constant).needsGradient());
  backward(graph, mse(graph, constant, constant));
}

}  // namespace
}  // namespace heed::test
