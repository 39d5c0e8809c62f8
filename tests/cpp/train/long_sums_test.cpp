#include <cmath>

#include "gradients.h"
#include "heed/norm.h"
#include "heed/positional_encoding.h"
#include "heed/train/ops.h"
#include "ops/attention_backward.h"

/// Gradients that are sums of millions of terms, against double precision.
namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::Matrix;
using train::ParameterGradients;
using train::Variable;

constexpr Index kRows = 1 << 22, kFeatures = 2;

/// A matrix of equal rows, which has no exact sum in fp32.
RowMajorMatrix equalRows(Index rows, Index columns) {
  RowMajorMatrix m(rows, columns);
  for (Index j = 0; j < columns; ++j) m.col(j).setConstant(0.1f + 0.2f * static_cast<float>(j));
  return m;
}

Matrix matrixOf(const RowMajorMatrix& m) { return Matrix(window(m)); }

void expectSums(const RowMajorMatrix& got, const RowMajorMatrix& terms, double count, double relative = 2e-6) {
  ASSERT_EQ(got.size(), terms.size());
  for (Index i = 0; i < got.size(); ++i) {
    const double exact = count * static_cast<double>(terms.data()[i]);
    EXPECT_NEAR(static_cast<double>(got.data()[i]), exact, relative * std::abs(exact)) << i;
  }
}

struct Pass {
  Context context;
  Graph graph{context};
};

TEST(TrainLongSums, OfLinear) {
  Pass p;
  const Variable x = p.graph.leaf(matrixOf(equalRows(kRows, 1))), weight = leaf(p.graph, randomMatrix(kFeatures, 1, 1)),
                 bias = leaf(p.graph, randomMatrix(1, kFeatures, 2));
  const RowMajorMatrix dy = equalRows(kRows, kFeatures);
  Backward::run(p.graph, linear(p.graph, x, weight, bias, Activation::kIdentity), window(dy));
  expectSums(gradientOf(bias), dy.topRows(1), kRows);
  expectSums(gradientOf(weight), 0.1f * dy.topRows(1), kRows, 1e-5);  // sums of sums of 512 in fp32
}

TEST(TrainLongSums, OfRowsThatAreUsedAgainAndAgain) {
  Pass p;
  const RowMajorMatrix dy = equalRows(kRows, kFeatures);
  const Variable x = leaf(p.graph, randomMatrix(3, kFeatures, 1));
  std::vector<Index> indices(kRows, 2);
  indices.back() = 0;
  Backward::run(p.graph, gatherRows(p.graph, x, indices), window(dy));
  expectSums(gradientOf(x).row(0), dy.topRows(1), 1);
  expectSums(gradientOf(x).row(1), dy.topRows(1), 0);
  expectSums(gradientOf(x).row(2), dy.topRows(1), kRows - 1);
}

TEST(TrainLongSums, OfRowsOfTables) {
  struct Table : Module {
    std::vector<float> values = std::vector<float>(3 * kFeatures);
    std::vector<Parameter> ownParameters() override {
      return {plainParameter("weight", {3, kFeatures}, values.data(), ParameterKind::kWeight, {})};
    }
  } module;
  const RowMajorMatrix dy = equalRows(kRows, kFeatures);
  for (const bool sparse : {true, false}) {
    Pass p;
    ParameterGradients gradients(module);
    p.graph.add(gradients);
    std::vector<Index> rows(kRows, 1);
    rows[0] = 2;
    const TableRows table{.storage = nullptr, .plain = module.values.data(), .rows = rows, .sparse = sparse};
    Backward::run(p.graph, lookUp(p.graph, {&table, 1}, kFeatures), window(dy));
    const RowMajorMatrix got = gradientOf(gradients, "weight");
    expectSums(got.row(1), dy.topRows(1), kRows - 1);
    expectSums(got.row(2), dy.topRows(1), 1);
  }
}

TEST(TrainLongSums, OfPositionalEncoding) {
  Pass p;
  PositionalEncoding layer({.embed_dim = kFeatures, .max_length = 2, .learned = true});
  ParameterGradients gradients(layer);
  p.graph.add(gradients);
  const RowMajorMatrix dy = equalRows(kRows, kFeatures);
  const Variable x = p.graph.leaf(matrixOf(dy));
  Backward::run(p.graph, positionalEncoding(p.graph, layer, x, Sequences::uniform(kRows / 2, 2)), window(dy));
  for (Index i = 0; i < 2; ++i) expectSums(gradientOf(gradients, "weight").row(i), dy.topRows(1), kRows / 2);
}

TEST(TrainLongSums, OfNormsAndLayerScale) {
  Pass p;
  LayerNorm norm({.normalized_shape = kFeatures, .eps = 0});
  LayerScale scale(kFeatures);
  ParameterGradients of_norm(norm), of_scale(scale);
  p.graph.add(of_norm);
  p.graph.add(of_scale);
  // Rows (3, -3) are normalized to (1, -1).
  RowMajorMatrix x(kRows, kFeatures);
  x.col(0).setConstant(3);
  x.col(1).setConstant(-3);
  const RowMajorMatrix dy = equalRows(kRows, kFeatures), signs = matrix({{1, -1}});
  const Variable input = p.graph.leaf(matrixOf(x));
  Backward::run(p.graph, layerNorm(p.graph, norm, input), window(dy));
  expectSums(gradientOf(of_norm, "weight"), dy.topRows(1).cwiseProduct(signs), kRows);
  expectSums(gradientOf(of_norm, "bias"), dy.topRows(1), kRows);
  Backward::run(p.graph, scaleColumns(p.graph, scale, input), window(dy));
  expectSums(gradientOf(of_scale, of_scale.parameters()[0].name), 3 * dy.topRows(1).cwiseProduct(signs), kRows);
}

/// Many sequences of one query and two keys, whose scores are 0: the weights are 1/2, and for values (v, w) and dY = 1,
/// dS = ((v - w) / 4, (w - v) / 4).
struct ManySequences {
  static constexpr Index kCount = 1 << 18;
  Variable mask, bias, head_mask;

  explicit ManySequences(Pass& p) {
    const RowMajorMatrix zeros = RowMajorMatrix::Zero(2 * kCount, 1), ones = RowMajorMatrix::Ones(kCount, 1);
    RowMajorMatrix values(2 * kCount, 1);
    for (Index i = 0; i < values.rows(); ++i) values(i, 0) = i % 2 == 0 ? 0.9f : 0.2f;
    mask = leaf(p.graph, RowMajorMatrix::Zero(1, 2));
    bias = leaf(p.graph, RowMajorMatrix::Zero(1, 3));
    head_mask = leaf(p.graph, RowMajorMatrix::Ones(1, 1));
    const auto value_of = [](const Variable& v) { return Value::constant(v.value()); };
    const MaskTensor masks[] = {{"mask", Mask::Kind::kAdditive, mask.value().data(), {2}, false, value_of(mask)}};
    AttentionOptions options;
    options.masks = masks;
    options.bias = value_of(bias);
    options.head_mask = value_of(head_mask);
    train::AttentionVariables variables;
    variables.query = p.graph.leaf(matrixOf(zeros.topRows(kCount)));
    variables.key = p.graph.leaf(matrixOf(zeros));
    variables.value = p.graph.leaf(matrixOf(values));
    variables.bias = bias;
    variables.head_mask = head_mask;
    variables.masks = {mask};
    variables.shared = {nullptr};
    const Variable y = recordAttention(p.graph, std::move(variables), Sequences::uniform(kCount, 1),
                                       Sequences::uniform(kCount, 2), 1, options, nullptr);
    Backward::run(p.graph, y, window(ones));
  }
};

TEST(TrainLongSums, OfMasksBiasesAndHeadMasks) {
  Pass p;
  const ManySequences all(p);
  const float d = 0.5f * (0.9f - (0.9f + 0.2f) / 2);
  expectSums(gradientOf(all.mask), matrix({{d, -d}}), ManySequences::kCount);
  expectSums(gradientOf(all.bias), matrix({{0, d, -d}}), ManySequences::kCount);
  expectSums(gradientOf(all.head_mask), matrix({{(0.9f + 0.2f) / 2}}), ManySequences::kCount);
}

}  // namespace
}  // namespace heed::test
