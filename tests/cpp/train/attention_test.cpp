#include "heed/attention.h"

#include <bit>
#include <cmath>

#include "gradients.h"
#include "heed/train/recording_evaluator.h"
#include "ops/reference.h"

namespace heed::test {
namespace {

using train::Backward;
using train::Graph;
using train::RecordingEvaluator;
using train::Variable;

/// The inputs of attention that can have a gradient.
template <class Values>
struct Inputs {
  Values query, key, value;
  Values mask, key_mask;  // additive: (N, L) rows of S entries each, (N, S); empty: none
  Values bias, head_mask;
  Values position_key = {}, position_query = {};  // (C, H Dk)
};

struct Call {
  Sequences queries, keys;
  Index heads;
  std::shared_ptr<const std::vector<uint8_t>> allowed;  // (N, H, L, S), or null
  bool causal = false;
  std::optional<Index> window = {};
  float dropout = 0;
  DropoutKey dropout_key{17, 3};
  Index first_sequence = 0;
  Index key_heads = 0;                                  // 0: heads
  std::shared_ptr<const std::vector<Index>> rows = {};  // of positions, or null

  Index keyHeads() const { return key_heads == 0 ? heads : key_heads; }
  Index longest() const { return queries.maxLength(); }
  Index width() const { return keys.maxLength(); }
};

/// The formula in double precision, head by head and sequence by sequence.
DoubleMatrix reference(const Call& call, const Inputs<DoubleMatrix>& in) {
  const Index heads = call.heads, dk = in.query.cols() / heads, dv = in.value.cols() / call.keyHeads();
  const double scale = 1 / std::sqrt(double(dk));
  DoubleMatrix output(in.query.rows(), heads * dv);
  for (Index n = 0; n < call.queries.count(); ++n) {
    const Index l = call.queries.length(n), s = call.keys.length(n);
    for (Index h = 0; h < heads; ++h) {
      const Index key_head = h * call.keyHeads() / heads;
      const DoubleMatrix q = in.query.block(call.queries.begin(n), h * dk, l, dk),
                         k = in.key.block(call.keys.begin(n), key_head * dk, s, dk),
                         v = in.value.block(call.keys.begin(n), key_head * dv, s, dv);
      DoubleMatrix added = reference::causalAndWindow(l, s, call.causal, call.window.value_or(-1), 0);
      DoubleMatrix kept = DoubleMatrix::Ones(l, s);
      for (Index i = 0; i < l; ++i) {
        DropoutRow draws(call.dropout_key, call.first_sequence + n, h, i);
        for (Index j = 0; j < s; ++j) {
          const auto at = static_cast<size_t>(((n * heads + h) * call.longest() + i) * call.width() + j);
          if (call.allowed && !(*call.allowed)[at]) added(i, j) = reference::kForbidden;
          if (in.mask.size()) added(i, j) += in.mask(n * call.longest() + i, j);
          if (in.key_mask.size()) added(i, j) += in.key_mask(n, j);
          const Index most = in.bias.cols() / 2;
          if (in.bias.size()) added(i, j) += in.bias(h, most + std::clamp(j - i, -most, most));
          if (call.rows) {
            const Index far = static_cast<Index>(call.rows->size()) / 2;
            const Index r = (*call.rows)[static_cast<size_t>(far + std::clamp(i - j, -far, far))];
            added(i, j) += scale * (q.row(i).dot(in.position_key.row(r).segment(h * dk, dk)) +
                                    k.row(j).dot(in.position_query.row(r).segment(h * dk, dk)));
          }
          if (call.dropout > 0) kept(i, j) = draws.drops(j, call.dropout) ? 0 : 1 / (1 - double(call.dropout));
        }
      }
      const DoubleMatrix weights = reference::attention(q, k, v, scale, added).weights;
      const double factor = in.head_mask.size() ? in.head_mask(in.head_mask.rows() > 1 ? n : 0, h) : 1;
      output.block(call.queries.begin(n), h * dv, l, dv) = factor * weights.cwiseProduct(kept) * v;
    }
  }
  return output;
}

/// The same call in training.
struct Recorded {
  Recorded(Graph& graph, const Call& call, const Inputs<RowMajorMatrix>& in, float* weights = nullptr) {
    const auto variable = [&](const RowMajorMatrix& m) { return m.size() ? leaf(graph, m) : Variable(); };
    leaves = {variable(in.query),     variable(in.key),          variable(in.value),
              variable(in.mask),      variable(in.key_mask),     variable(in.bias),
              variable(in.head_mask), variable(in.position_key), variable(in.position_query)};
    RecordingEvaluator e(graph);
    AttentionOptions options;
    options.key_heads = call.key_heads;
    DisentangledPositions positions;
    if (call.rows) {
      positions = {.key = e.value(leaves.position_key),
                   .query = e.value(leaves.position_query),
                   .max_distance = static_cast<Index>(call.rows->size()) / 2,
                   .rows = call.rows->data()};
      options.positions = &positions;
    }
    options.causal = call.causal;
    options.window = call.window;
    options.dropout = call.dropout;
    options.dropout_key = call.dropout_key;
    options.bias = e.value(leaves.bias);
    options.head_mask = e.value(leaves.head_mask);
    const Index n = call.queries.count(), l = call.longest(), s = call.width();
    std::vector<MaskTensor> masks;
    if (call.allowed) masks.push_back({"mask", Mask::Kind::kBoolean, call.allowed->data(), {n, call.heads, l, s}});
    const auto added = [&](const char* name, const Variable& mask, const Shape& shape, bool per_key) {
      if (!mask) return;
      const Value value = e.value(mask);
      masks.push_back({name, Mask::Kind::kAdditive, value.data(), shape, per_key, value});
    };
    added("mask", leaves.mask, {n, 1, l, s}, false);
    added("keyMask", leaves.key_mask, {n, s}, true);
    options.masks = masks;
    graph.context().random.first_sequence = call.first_sequence;
    const Value result =
        e.attention({e.value(leaves.query), e.value(leaves.key), e.value(leaves.value), call.queries, call.keys},
                    call.heads, options, weights);
    output = e.variable(result);
  }

  Inputs<Variable> leaves;
  Variable output;
};

Inputs<RowMajorMatrix> randomInputs(const Call& call, Index dk, Index dv) {
  Inputs<RowMajorMatrix> in;
  in.query = 2 * randomMatrix(call.queries.totalRows(), call.heads * dk, 1);
  in.key = 2 * randomMatrix(call.keys.totalRows(), call.keyHeads() * dk, 2);
  in.value = randomMatrix(call.keys.totalRows(), call.keyHeads() * dv, 3);
  return in;
}

Inputs<DoubleMatrix> inDouble(const Inputs<RowMajorMatrix>& in) {
  const auto wide = [](const RowMajorMatrix& m) -> DoubleMatrix { return m.cast<double>(); };
  return {wide(in.query), wide(in.key),       wide(in.value),        wide(in.mask),          wide(in.key_mask),
          wide(in.bias),  wide(in.head_mask), wide(in.position_key), wide(in.position_query)};
}

/// Compares the output with the formula and all gradients with central differences.
void expectAttentionGradients(const Call& call, const Inputs<RowMajorMatrix>& in) {
  Context context;
  Graph graph(context);
  const Recorded recorded(graph, call, in);
  const RowMajorMatrix cotangent = randomMatrix(recorded.output.rows(), recorded.output.cols(), 9);
  Backward::run(graph, recorded.output, window(cotangent));
  const Inputs<DoubleMatrix> wide = inDouble(in);
  expectNear(recorded.output.value(), reference(call, wide).cast<float>());
  for (const auto& [name, member, values] :
       {std::tuple{"query", &Inputs<Variable>::query, &Inputs<DoubleMatrix>::query},
        {"key", &Inputs<Variable>::key, &Inputs<DoubleMatrix>::key},
        {"value", &Inputs<Variable>::value, &Inputs<DoubleMatrix>::value},
        {"mask", &Inputs<Variable>::mask, &Inputs<DoubleMatrix>::mask},
        {"keyMask", &Inputs<Variable>::key_mask, &Inputs<DoubleMatrix>::key_mask},
        {"bias", &Inputs<Variable>::bias, &Inputs<DoubleMatrix>::bias},
        {"headMask", &Inputs<Variable>::head_mask, &Inputs<DoubleMatrix>::head_mask},
        {"positions.key", &Inputs<Variable>::position_key, &Inputs<DoubleMatrix>::position_key},
        {"positions.query", &Inputs<Variable>::position_query, &Inputs<DoubleMatrix>::position_query}}) {
    SCOPED_TRACE(name);
    if (!(recorded.leaves.*member)) continue;
    const auto forward = [&, input = values](const DoubleMatrix& moved) {
      Inputs<DoubleMatrix> changed = wide;
      changed.*input = moved;
      return reference(call, changed);
    };
    expectNear(gradientOf(recorded.leaves.*member),
               numericalGradient(forward, wide.*values, cotangent.cast<double>()).cast<float>());
  }
}

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
