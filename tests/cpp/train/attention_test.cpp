#include "heed/attention.h"

#include <bit>

#include "attention_call.h"

namespace heed::test {
namespace {

TEST(TrainAttention, GradientsEqualCentralDifferencesAtAwkwardSizes) {
  for (const Index heads : {1, 3}) {
    for (const auto& [dk, dv] : {std::pair<Index, Index>{1, 7}, {9, 1}, {8, 8}}) {
      for (const auto& [l, s] : {std::pair<Index, Index>{1, 1}, {7, 13}, {13, 1}, {1, 9}, {5, 8}}) {
        SCOPED_TRACE(Shape({heads, dk, dv, l, s}).toString());
        const Call call{Sequences::uniform(2, l), Sequences::uniform(2, s), heads, nullptr};
        expectAttentionGradients(call, randomInputs(call, dk, dv));
      }
    }
  }
}

TEST(TrainAttention, GradientsEqualCentralDifferencesWithEveryPairOfOptions) {
  // Sequences of different lengths, one without queries and one without keys. The bits of `choice` enable the options.
  constexpr unsigned kOptions = 10;
  const Sequences queries = Sequences::ofLengths({3, 0, 7, 1}), keys = Sequences::ofLengths({5, 2, 9, 0});
  const Index heads = 2, count = 4, most_queries = 7, most_keys = 9;
  Generator generator(7);
  std::vector<uint8_t> allowed(static_cast<size_t>(count * heads * most_queries * most_keys));
  for (uint8_t& x : allowed) x = generator.uniform() < 0.7f;
  const auto with_forbidden = [&](RowMajorMatrix m) {
    for (Index i = 0; i < m.size(); ++i) {
      if (generator.uniform() < 0.2f) m.data()[i] = -kInfinity;
    }
    return m;
  };
  const RowMajorMatrix mask = with_forbidden(2 * randomMatrix(count * most_queries, most_keys, 4)),
                       key_mask = with_forbidden(randomMatrix(count, most_keys, 5));
  for (unsigned choice = 0; choice < 1 << kOptions; ++choice) {
    if (std::popcount(choice) > 2 && std::popcount(choice) < static_cast<int>(kOptions) - 1) continue;
    SCOPED_TRACE(choice);
    const auto chosen = [choice](unsigned bit) { return (choice >> bit & 1) == 1; };
    Call call{queries, keys, heads, nullptr};
    if (chosen(8)) call.key_heads = 1;
    if (chosen(9)) {  // needs as many heads of keys
      call.key_heads = 0;
      // Distances up to 5, where the largest share a row. No distance uses rows 0 and 7.
      call.rows = std::make_shared<const std::vector<Index>>(std::vector<Index>{1, 1, 2, 2, 3, 4, 5, 5, 5, 6, 6});
    }
    Inputs<RowMajorMatrix> in = randomInputs(call, 5, 3);
    if (call.rows) {
      in.position_key = randomMatrix(8, heads * 5, 10);
      in.position_query = randomMatrix(8, heads * 5, 11);
    }
    if (chosen(0)) call.allowed = std::make_shared<const std::vector<uint8_t>>(allowed);
    if (chosen(1)) in.mask = mask;
    if (chosen(2)) in.key_mask = key_mask;
    call.causal = chosen(3);
    if (chosen(4)) call.window = 2;
    if (chosen(5)) in.bias = randomMatrix(heads, 2 * 3 + 1, 6);
    if (chosen(6)) in.head_mask = randomMatrix(choice % 2 ? count : 1, heads, 7);
    if (chosen(7)) call.dropout = 0.3f;
    expectAttentionGradients(call, in);
  }
}

TEST(TrainAttention, GradientsEqualCentralDifferencesWithManyRowsOfDistances) {
  // Several column panels of rows, and distances on both sides that share the last row.
  const Index far = 12, most = 9;
  std::vector<Index> rows;
  for (Index distance = -far; distance <= far; ++distance) rows.push_back(1 + most + std::clamp(distance, -most, most));
  Call call{Sequences::uniform(1, 13), Sequences::uniform(1, 11), 1, nullptr};
  call.rows = std::make_shared<const std::vector<Index>>(rows);
  Inputs<RowMajorMatrix> in = randomInputs(call, 3, 2);
  in.position_key = randomMatrix(2 * most + 3, 3, 10);
  in.position_query = randomMatrix(2 * most + 3, 3, 11);
  expectAttentionGradients(call, in);
}

TEST(TrainAttention, GradientsOfLongSequencesEqualTheFormulas) {
  // More row blocks of queries than are computed at a time, and more keys than one part of the transposed products.
  for (const bool causal : {false, true}) {
    const Index l = 130, s = 141, dk = 9, dv = 13;
    Call call{Sequences::uniform(1, l), Sequences::uniform(1, s), 1, nullptr, causal};
    if (causal) call.window = 40;
    const Inputs<RowMajorMatrix> in = randomInputs(call, dk, dv);
    Context context;
    Graph graph(context);
    const Recorded recorded(graph, call, in);
    const RowMajorMatrix cotangent = randomMatrix(l, dv, 9);
    Backward::run(graph, recorded.output, window(cotangent));

    const Inputs<DoubleMatrix> x = inDouble(in);
    const double scale = 1 / std::sqrt(double(dk));
    const auto [P, O] = reference::attention(x.query, x.key, x.value, scale,
                                             reference::causalAndWindow(l, s, causal, call.window.value_or(-1), 0));
    const DoubleMatrix dO = cotangent.cast<double>(), dP = dO * x.value.transpose();
    const DoubleMatrix dS = P.array() * (dP.colwise() - dO.cwiseProduct(O).rowwise().sum()).array();
    expectNear(gradientOf(recorded.leaves.query), (scale * dS * x.key).cast<float>());
    expectNear(gradientOf(recorded.leaves.key), (scale * dS.transpose() * x.query).cast<float>());
    expectNear(gradientOf(recorded.leaves.value), (P.transpose() * dO).cast<float>());
  }
}

TEST(TrainAttention, ForbiddenKeysHaveNoGradientWhateverTheyHold) {
  // Keys 2 and 11 are hidden from all queries by a mask, key 4 from all but the last query, the others from none.
  const Index l = 9, s = 13;
  std::vector<uint8_t> allowed(static_cast<size_t>(l * s), 1);
  for (Index i = 0; i < l; ++i) {
    for (const Index j : {2, 11}) allowed[static_cast<size_t>(i * s + j)] = 0;
    if (i + 1 < l) allowed[static_cast<size_t>(i * s + 4)] = 0;
  }
  Call call{Sequences::uniform(1, l), Sequences::uniform(1, s), 1, nullptr};
  call.allowed = std::make_shared<const std::vector<uint8_t>>(allowed);
  const Inputs<RowMajorMatrix> finite = randomInputs(call, 5, 3);
  Inputs<RowMajorMatrix> hidden = finite;
  hidden.key.row(2).setConstant(std::nanf(""));
  hidden.value.row(2).setConstant(kInfinity);
  hidden.key.row(11).setConstant(-kInfinity);
  hidden.value(11, 1) = std::nanf("");
  const RowMajorMatrix cotangent = randomMatrix(l, 3, 9);

  Context context;
  Graph graph(context);
  const Recorded expected(graph, call, finite), got(graph, call, hidden);
  Backward::run(graph, expected.output, window(cotangent));
  Backward::run(graph, got.output, window(cotangent));
  expectSame(got.output.value(), expected.output.value());
  expectSame(gradientOf(got.leaves.query), gradientOf(expected.leaves.query));
  expectSame(gradientOf(got.leaves.key), gradientOf(expected.leaves.key));
  expectSame(gradientOf(got.leaves.value), gradientOf(expected.leaves.value));
  for (const Index j : {2, 11}) {
    EXPECT_TRUE((gradientOf(got.leaves.key).row(j).array() == 0).all());
    EXPECT_TRUE((gradientOf(got.leaves.value).row(j).array() == 0).all());
  }

  // A key that only the last query may attend to makes that query's gradients NaN, and no other query's.
  hidden.key.row(4).setConstant(std::nanf(""));
  const Recorded one(graph, call, hidden);
  Backward::run(graph, one.output, window(cotangent));
  const RowMajorMatrix dq = gradientOf(one.leaves.query);
  expectSame(dq.topRows(l - 1), gradientOf(expected.leaves.query).topRows(l - 1));
  EXPECT_TRUE(dq.row(l - 1).array().isNaN().all());
  EXPECT_TRUE((gradientOf(one.leaves.key).row(2).array() == 0).all());
}

TEST(TrainAttention, FullyMaskedQueriesHaveNoGradient) {
  const Index l = 7, s = 9;
  Call call{Sequences::uniform(1, l), Sequences::uniform(1, s), 2, nullptr};
  Inputs<RowMajorMatrix> in = randomInputs(call, 4, 4);
  in.mask = randomMatrix(l, s, 4);
  in.mask.row(3).setConstant(-kInfinity);
  const RowMajorMatrix cotangent = randomMatrix(l, 8, 9);
  Context context;
  Graph graph(context);
  const Recorded recorded(graph, call, in);
  Backward::run(graph, recorded.output, window(cotangent));
  EXPECT_TRUE((gradientOf(recorded.leaves.query).row(3).array() == 0).all());
  EXPECT_TRUE((gradientOf(recorded.leaves.mask).row(3).array() == 0).all());

  // If all scores are masked, every gradient is 0.
  in.mask.setConstant(-kInfinity);
  const Recorded nothing(graph, call, in);
  Backward::run(graph, nothing.output, window(cotangent));
  for (const Variable& x : {nothing.leaves.query, nothing.leaves.key, nothing.leaves.value, nothing.leaves.mask})
    EXPECT_TRUE((gradientOf(x).array() == 0).all());
}

TEST(TrainAttention, ScoreGradientsOfARowSumToZero) {
  const Index l = 13, s = 130;
  const Call call{Sequences::uniform(1, l), Sequences::uniform(1, s), 1, nullptr};
  Inputs<RowMajorMatrix> in = randomInputs(call, 8, 8);
  in.mask = randomMatrix(l, s, 4);
  Context context;
  Graph graph(context);
  const Recorded recorded(graph, call, in);
  Backward::run(graph, recorded.output, window(randomMatrix(l, 8, 9)));
  const RowMajorMatrix ds = gradientOf(recorded.leaves.mask);
  for (Index i = 0; i < l; ++i) EXPECT_NEAR(ds.row(i).sum(), 0, 1e-6 * static_cast<double>(ds.row(i).lpNorm<1>()));
}

TEST(TrainAttention, OneVariableAsQueryKeyAndValueGetsTheSumOfTheGradients) {
  const Call call{Sequences::uniform(2, 7), Sequences::uniform(2, 7), 2, nullptr};
  const RowMajorMatrix x = randomMatrix(14, 8, 1), cotangent = randomMatrix(14, 8, 9);
  Context context;
  Graph graph(context);
  const Recorded apart(graph, call, {x, x, x, {}, {}, {}, {}});
  Backward::run(graph, apart.output, window(cotangent));
  const Variable input = leaf(graph, x);
  RecordingEvaluator e(graph);
  const Value x_value = e.value(input);
  const Value output = e.attention({x_value, x_value, x_value, call.queries, call.keys}, call.heads, {}, nullptr);
  Backward::run(graph, e.variable(output), window(cotangent));
  const RowMajorMatrix sum =
      gradientOf(apart.leaves.query) + gradientOf(apart.leaves.key) + gradientOf(apart.leaves.value);
  expectSame(gradientOf(input), sum);
}

TEST(TrainAttention, BackwardRepeatsTheDropoutOfItsOwnForwardPass) {
  Call call{Sequences::uniform(2, 9), Sequences::uniform(2, 7), 2, nullptr};
  call.dropout = 0.5f;
  call.first_sequence = 5;
  const Inputs<RowMajorMatrix> in = randomInputs(call, 4, 4);
  expectAttentionGradients(call, in);

  // The second pass sees another random state and gives the same gradients again.
  const RowMajorMatrix cotangent = randomMatrix(18, 8, 9);
  Context context;
  Graph graph(context);
  const Recorded recorded(graph, call, in);
  Backward::run(graph, recorded.output, window(cotangent));
  const RowMajorMatrix once = gradientOf(recorded.leaves.key);
  context.random.first_sequence = 0;
  Backward::run(graph, recorded.output, window(cotangent));
  EXPECT_EQ(context.random.first_sequence, 0);
  expectSame(gradientOf(recorded.leaves.key), 2 * once);
}

TEST(TrainAttention, GivesTheBitsAndTheWeightsOfInference) {
  for (const Index l : {1, 13, 130}) {
    Call call{Sequences::uniform(2, l), Sequences::uniform(2, 9), 3, nullptr};
    call.causal = l == 13;
    call.dropout = l == 130 ? 0.1f : 0;
    const Inputs<RowMajorMatrix> in = randomInputs(call, 5, 7);
    Context context;
    AttentionOptions options;
    options.causal = call.causal;
    options.dropout = call.dropout;
    options.dropout_key = call.dropout_key;
    RowMajorMatrix expected(2 * l, 21), weights(2 * 3 * l, 9), got_weights(2 * 3 * l, 9);
    attention({valueOf(in.query), valueOf(in.key), valueOf(in.value), call.queries, call.keys}, 3, options,
              {window(expected), weights.data()}, context);
    Graph graph(context);
    expectSame(Recorded(graph, call, in, got_weights.data()).output.value(), expected);
    expectSame(got_weights, weights);
  }
}

TEST(TrainAttention, NamesWrongArguments) {
  Context context;
  Graph graph(context);
  RecordingEvaluator e(graph);
  const auto value = [&](Index rows, Index columns) { return e.value(leaf(graph, randomMatrix(rows, columns, 1))); };
  const Value x = value(4, 6), y = value(4, 5);
  const Sequences rows = Sequences::uniform(1, 4);
  const auto call = [&](const Value& key, const AttentionOptions& options) {
    return [&, key, options] { e.attention({x, key, x, rows, rows}, 2, options, nullptr); };
  };
  AttentionOptions options;
  expectError(ErrorCode::kShapeMismatch, "key", call(y, options));
  options.head_mask = value(1, 3);
  expectError(ErrorCode::kShapeMismatch, "headMask", call(x, options));
  options = {};
  const Value added = value(1, 12);
  const MaskTensor mask{"mask", Mask::Kind::kAdditive, added.data(), {3, 4}, false, added};
  options.masks = {&mask, 1};
  expectError(ErrorCode::kShapeMismatch, "mask", call(x, options));
  options = {};
  options.bias = value(2, 4);
  expectError(ErrorCode::kShapeMismatch, "bias", call(x, options));
}

}  // namespace
}  // namespace heed::test
