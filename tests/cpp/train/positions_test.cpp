#include "gradients.h"
#include "heed/embedding.h"
#include "heed/module.h"
#include "heed/train/ops.h"
#include "heed/train/recording_evaluator.h"
#include "ops/reference.h"

namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::ParameterGradients;
using train::Variable;

TEST(TrainRotary, GradientsEqualCentralDifferences) {
  const Sequences sequences = Sequences::ofLengths({3, 0, 1, 5});
  const Index heads = 2, width = 10;
  for (const Index dim : {2, 8, 10}) {
    const auto rotary = std::make_shared<const Rotary>(dim, 5, 100.0, Rotary::Pairing::kHalfSplit);
    expectGradients(
        {randomMatrix(9, heads * width, 1)},
        [&](Graph& graph, const auto& x) { return rotate(graph, rotary, x[0], sequences, heads); },
        [&](const auto& x) {
          DoubleMatrix y = x[0];
          for (Index n = 0; n < sequences.count(); ++n) {
            for (Index h = 0; h < heads; ++h) {
              auto part = y.block(sequences.begin(n), h * width, sequences.length(n), dim);
              part = reference::rotary(DoubleMatrix(part), 0, 100).eval();
            }
          }
          return y;
        });
  }
}

TEST(TrainRotary, InterleavedPairsAreTurnedBack) {
  const auto rotary = std::make_shared<const Rotary>(8, 5, 100.0, Rotary::Pairing::kInterleaved);
  const Sequences sequences = Sequences::ofLengths({5, 2});
  // For a rotation R, the gradient of |R x|^2 / 2 is x.
  const RowMajorMatrix x = randomMatrix(7, 20, 1);
  Context context;
  Graph graph(context);
  const Variable input = leaf(graph, x), y = rotate(graph, rotary, input, sequences, 2);
  EXPECT_GT((y.value() - x).cwiseAbs().maxCoeff(), 0.1f);
  Backward::run(graph, y, y.value());
  expectNear(gradientOf(input), x);
}

TEST(TrainPositionalEncoding, ALearnedTableGetsTheSumsOfItsRows) {
  const Sequences sequences = Sequences::ofLengths({3, 0, 1, 5});
  const Index width = 9;
  const RowMajorMatrix x = randomMatrix(9, width, 1);
  for (const auto mode : {PositionalEncodingOptions::Mode::kAdd, PositionalEncodingOptions::Mode::kConcat}) {
    PositionalEncoding layer({.embed_dim = width, .max_length = 6, .mode = mode, .learned = true});
    fillRandomly(layer, 3);
    ParameterGradients gradients(layer);
    Context context;
    Graph graph(context);
    graph.add(gradients);
    const Variable input = leaf(graph, x), y = positionalEncoding(graph, layer, input, sequences);
    RowMajorMatrix expected(9, layer.outputWidth(width));
    layer.forward(window(x), sequences, window(expected));
    expectSame(y.value(), expected);
    const RowMajorMatrix cotangent = randomMatrix(9, y.cols(), 2);
    Backward::run(graph, y, window(cotangent));
    expectSame(gradientOf(input), cotangent.leftCols(width));
    RowMajorMatrix table = RowMajorMatrix::Zero(6, width);
    for (Index n = 0; n < sequences.count(); ++n) {
      for (Index i = 0; i < sequences.length(n); ++i)
        table.row(i) += cotangent.row(sequences.begin(n) + i).rightCols(width);
    }
    expectNear(gradientOf(gradients, "weight"), table);
  }
}

TEST(TrainPositionalEncoding, SinusoidsPassTheGradientThrough) {
  PositionalEncoding layer({.embed_dim = 7, .max_length = 6});
  ParameterGradients gradients(layer);
  Context context;
  Graph graph(context);
  graph.add(gradients);
  const RowMajorMatrix cotangent = randomMatrix(6, 7, 2);
  const Sequences sequences = Sequences::uniform(2, 3);
  const Variable input = leaf(graph, randomMatrix(6, 7, 1));
  Backward::run(graph, positionalEncoding(graph, layer, input, sequences), window(cotangent));
  expectSame(gradientOf(input), cotangent);
  const Variable constant = graph.leaf(train::Matrix(window(cotangent)));
  EXPECT_FALSE(positionalEncoding(graph, layer, constant, sequences).needsGradient());
}

TEST(TrainEmbedding, RowsGetTheSumsOfTheirGradients) {
  Embedding layer(5, 9);
  initialize(layer, 1);
  ParameterGradients gradients(layer);
  Context context;
  Graph graph(context);
  graph.add(gradients);
  const std::vector<int32_t> ids{4, 0, 4, 4, 2};
  train::RecordingEvaluator e(graph);
  const Variable y = e.variable(layer.forward(e, ids));
  const RowMajorMatrix weight = read(layer, "weight"), cotangent = randomMatrix(5, 9, 2);
  RowMajorMatrix expected = RowMajorMatrix::Zero(5, 9);
  for (Index t = 0; t < 5; ++t) {
    EXPECT_EQ(y.value().row(t), weight.row(ids[static_cast<size_t>(t)]));
    expected.row(ids[static_cast<size_t>(t)]) += cotangent.row(t);
  }
  Backward::run(graph, y, window(cotangent));
  expectNear(gradientOf(gradients, "weight"), expected);
  EXPECT_TRUE(gradients.entry(0).by_rows);
  EXPECT_EQ(gradients.entry(0).rows.order.size(), 3u);
  // A second pass adds to the gradient; zero() then drops it.
  Backward::run(graph, y, window(cotangent));
  expectNear(gradientOf(gradients, "weight"), 2 * expected);
  gradients.zero();
  EXPECT_FALSE(gradients.hasGradient(0));
  expectSame(gradientOf(gradients, "weight"), RowMajorMatrix::Zero(5, 9));
}

TEST(TrainEmbedding, ATableThatIsAlsoUsedAsAWholeHasADenseGradient) {
  Embedding layer(5, 3);
  ParameterGradients gradients(layer);
  const ParameterGradients::Location table{0, 0, 5};
  gradients.row(table, 3)[1] = 2;
  gradients.dense(table)(3, 1) += 1;
  gradients.dense(table)(0, 0) += 4;
  gradients.row(table, 3)[1] += 1;
  RowMajorMatrix expected = RowMajorMatrix::Zero(5, 3);
  expected(3, 1) = 4;
  expected(0, 0) = 4;
  expectSame(gradientOf(gradients, "weight"), expected);
  EXPECT_EQ(gradients.sumOfSquares(0), 32);
}

TEST(TrainEmbedding, RefusesIdsOutsideTheTable) {
  const Embedding layer(5, 3);
  Inference in;
  const std::vector<int32_t> large{0, 5}, negative{-1, 0};
  expectError(ErrorCode::kInvalidArgument, "ids:", [&] { layer.forward(in.e, large); });
  expectError(ErrorCode::kInvalidArgument, "ids:", [&] { layer.forward(in.e, negative); });
  expectError(ErrorCode::kInvalidArgument, "numEmbeddings:", [] { Embedding(0, 3); });
  expectError(ErrorCode::kInvalidArgument, "embedDim:", [] { Embedding(3, 0); });
  expectError(ErrorCode::kOutOfMemory, "weight:", [] { Embedding(1 << 20, 1 << 20); });
}

}  // namespace
}  // namespace heed::test
