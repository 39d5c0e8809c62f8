#include "heed/multi_head_attention.h"

#include <algorithm>
#include <numeric>

#include "ops/reference.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

/// Output and weights of one call on a batch of one.
struct Attended {
  RowMajorMatrix output;
  std::vector<float> weights;
};

Attended run(MultiHeadAttention& mha, const RowMajorMatrix& query, const RowMajorMatrix& key,
             const RowMajorMatrix& value, const AttentionOptions& options = {}) {
  Inference in;
  const Sequences queries = Sequences::uniform(1, query.rows()), keys = Sequences::uniform(1, key.rows());
  std::vector<float> weights(static_cast<size_t>(attentionWeightsSize(mha.options().num_heads, queries, keys)));
  const Value output =
      mha.forward(in.e, {valueOf(query), valueOf(key), valueOf(value), queries, keys}, options, weights.data());
  return {output.values(), weights};
}

Attended run(MultiHeadAttention& mha, const RowMajorMatrix& x, const AttentionOptions& options = {}) {
  return run(mha, x, x, x, options);
}

MultiHeadAttention random(const MultiHeadAttentionOptions& options, uint64_t seed = 1) {
  MultiHeadAttention mha(options);
  fillRandomly(mha, seed);
  return mha;
}

RowMajorMatrix affine(const RowMajorMatrix& x, const RowMajorMatrix& w, const RowMajorMatrix& b) {
  return reference::linear(x.cast<double>(), w.cast<double>(), b.cast<double>().transpose()).cast<float>();
}

TEST(MultiHeadAttention, ConcatenatesItsHeads) {
  auto mha = random({.embed_dim = 12, .num_heads = 3});
  const RowMajorMatrix x = randomMatrix(5, 12, 7), w = read(mha, "in_proj_weight"), b = read(mha, "in_proj_bias");
  const RowMajorMatrix q = affine(x, w.topRows(12), b.topRows(12)),
                       k = affine(x, w.middleRows(12, 12), b.middleRows(12, 12)),
                       v = affine(x, w.bottomRows(12), b.bottomRows(12));
  RowMajorMatrix heads(5, 12);
  for (Index h = 0; h < 3; ++h) {
    const auto head = [h](const RowMajorMatrix& all) { return all.middleCols(4 * h, 4).cast<double>(); };
    const reference::Matrix M = reference::Matrix::Zero(5, 5);
    heads.middleCols(4 * h, 4) = reference::attention(head(q), head(k), head(v), 0.5, M).output.cast<float>();
  }
  expectNear(run(mha, x).output, affine(heads, read(mha, "out_proj.weight"), read(mha, "out_proj.bias")));
}

TEST(MultiHeadAttention, ParametersHavePyTorchsNames) {
  MultiHeadAttention packed({.embed_dim = 6, .num_heads = 2}),
      wide({.embed_dim = 6, .num_heads = 2, .key_dim = 6, .value_dim = 5}),
      cross({.embed_dim = 6, .num_heads = 3, .key_input_dim = 4, .value_input_dim = 5, .bias = false});
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(packed),
            (Names{"in_proj_weight [18, 6]", "in_proj_bias [18]", "out_proj.weight [6, 6]", "out_proj.bias [6]"}));
  EXPECT_EQ(names(wide), (Names{"q_proj_weight [12, 6]", "k_proj_weight [12, 6]", "v_proj_weight [10, 6]",
                                "in_proj_bias [34]", "out_proj.weight [6, 10]", "out_proj.bias [6]"}));
  EXPECT_EQ(names(cross),
            (Names{"q_proj_weight [6, 6]", "k_proj_weight [6, 4]", "v_proj_weight [6, 5]", "out_proj.weight [6, 6]"}));
  EXPECT_EQ(packed.parameterCount(), 4 * 36 + 4 * 6);
}

TEST(MultiHeadAttention, PackedRowsAreReadAndWrittenAcrossTheThirds) {
  auto mha = random({.embed_dim = 4, .num_heads = 2});
  const RowMajorMatrix before = read(mha, "in_proj_weight");
  const RowMajorMatrix rows = randomMatrix(6, 4, 9);  // rows 3 .. 8: the end of q, all of k, the start of v
  const std::vector<Parameter> all = mha.parameters();
  parameter(all, "in_proj_weight").write(3, 6, rows.data());
  RowMajorMatrix expected = before, part(6, 4);
  expected.middleRows(3, 6) = rows;
  expectSame(read(mha, "in_proj_weight"), expected);
  parameter(all, "in_proj_weight").read(3, 6, part.data());
  expectSame(part, rows);

  std::vector<signed char> bytes(12 * 4);
  std::iota(bytes.begin(), bytes.end(), static_cast<signed char>(-24));
  std::vector<float> scales(12);
  for (size_t i = 0; i < 12; ++i) scales[i] = 0.25f * static_cast<float>(i + 1);
  writeInt8(parameter(all, "in_proj_weight"), 4, 0, 12, bytes.data(), scales.data());
  for (Index i = 0; i < 12; ++i) {
    for (Index j = 0; j < 4; ++j)
      expected(i, j) = scales[static_cast<size_t>(i)] * static_cast<float>(bytes[static_cast<size_t>(4 * i + j)]);
  }
  expectSame(read(mha, "in_proj_weight"), expected);
}

TEST(MultiHeadAttention, PermutingPositionsPermutesTheOutput) {
  auto mha = random({.embed_dim = 8, .num_heads = 2});
  const RowMajorMatrix x = randomMatrix(7, 8, 3);
  expectNear(run(mha, x.colwise().reverse()).output, run(mha, x).output.colwise().reverse());
}

TEST(MultiHeadAttention, PermutingKeysAndValuesTogetherChangesNothing) {
  auto mha = random({.embed_dim = 8, .num_heads = 2});
  const RowMajorMatrix q = randomMatrix(3, 8, 3), kv = randomMatrix(6, 8, 4), turned = kv.colwise().reverse();
  expectNear(run(mha, q, turned, turned).output, run(mha, q, kv, kv).output);
}

TEST(MultiHeadAttention, SharedInputsEqualCopies) {
  // The same view as query, key and value is packed once; the result must be bit-identical.
  auto mha = random({.embed_dim = 10,
                     .num_heads = 2,
                     .query_activation = Activation::kTanh,
                     .key_activation = Activation::kTanh,
                     .value_activation = Activation::kTanh});
  const RowMajorMatrix x = randomMatrix(9, 10, 3), y = x, z = x;
  expectSame(run(mha, x, x, x).output, run(mha, x, y, z).output);
  expectSame(run(mha, x, y, y).output, run(mha, x, y, z).output);
}

TEST(MultiHeadAttention, ProjectionsMayBeNonlinear) {
  auto mha = random({.embed_dim = 6,
                     .num_heads = 2,
                     .query_activation = Activation::kRelu,
                     .key_activation = Activation::kRelu,
                     .value_activation = Activation::kRelu});
  const RowMajorMatrix x = randomMatrix(4, 6, 2);
  Inference in;
  const Value q = mha.projectQuery(in.e, valueOf(x));
  expectNear(q.values(),
             affine(x, read(mha, "in_proj_weight").topRows(6), read(mha, "in_proj_bias").topRows(6)).cwiseMax(0.0f));
}

TEST(MultiHeadAttention, HeadsMayHaveAnyWidth) {
  // Every head has the full width q, so the output matrix is n_h q x q.
  auto mha =
      random({.embed_dim = 5, .num_heads = 3, .key_dim = 5, .value_dim = 4, .key_input_dim = 7, .value_input_dim = 2});
  const RowMajorMatrix q = randomMatrix(4, 5, 2), k = randomMatrix(6, 7, 3), v = randomMatrix(6, 2, 4);
  const Attended a = run(mha, q, k, v);
  EXPECT_EQ(a.output.cols(), 5);
  EXPECT_EQ(a.weights.size(), 3u * 4 * 6);
  for (size_t row = 0; row < 12; ++row)
    EXPECT_NEAR(std::accumulate(a.weights.begin() + static_cast<int>(6 * row),
                                a.weights.begin() + static_cast<int>(6 * row + 6), 0.0f),
                1, 1e-5);
}

TEST(MultiHeadAttention, HeadsMayShareKeysAndValues) {
  auto grouped = random({.embed_dim = 9, .num_heads = 4, .key_value_heads = 2, .key_dim = 3, .value_dim = 5});
  MultiHeadAttention apart({.embed_dim = 9, .num_heads = 4, .key_dim = 3, .value_dim = 5});
  EXPECT_EQ(names(grouped),
            (std::vector<std::string>{"q_proj_weight [12, 9]", "k_proj_weight [6, 9]", "v_proj_weight [10, 9]",
                                      "in_proj_bias [28]", "out_proj.weight [9, 20]", "out_proj.bias [9]"}));
  // Each head of the keys and values twice in a row.
  const auto twice = [](const RowMajorMatrix& rows, Index width) {
    RowMajorMatrix all(2 * rows.rows(), rows.cols());
    for (Index h = 0; h < 4; ++h) all.middleRows(h * width, width) = rows.middleRows(h / 2 * width, width);
    return all;
  };
  const RowMajorMatrix bias = read(grouped, "in_proj_bias").reshaped(28, 1);
  RowMajorMatrix all_biases(44, 1);
  all_biases << bias.topRows(12), twice(bias.middleRows(12, 6), 3), twice(bias.bottomRows(10), 5);
  write(apart, "q_proj_weight", read(grouped, "q_proj_weight"));
  write(apart, "k_proj_weight", twice(read(grouped, "k_proj_weight"), 3));
  write(apart, "v_proj_weight", twice(read(grouped, "v_proj_weight"), 5));
  write(apart, "in_proj_bias", all_biases);
  write(apart, "out_proj.weight", read(grouped, "out_proj.weight"));
  write(apart, "out_proj.bias", read(grouped, "out_proj.bias"));
  const RowMajorMatrix x = randomMatrix(6, 9, 3);
  expectSame(run(grouped, x).output, run(apart, x).output);
}

TEST(MultiHeadAttention, NormalizesTheQueriesAndKeysOfEachHead) {
  const LayerNormOptions norm{.eps = 1e-6f, .rms = true};
  auto mha = random(
      {.embed_dim = 6, .num_heads = 2, .key_dim = 5, .value_dim = 3, .bias = false, .qk_norm = true, .norm = norm});
  const RowMajorMatrix x = randomMatrix(4, 6, 3);
  Inference in;
  const auto [q, k, v] = mha.project(in.e, valueOf(x), valueOf(x), valueOf(x));
  for (const auto& [projected, weight, gamma] :
       {std::tuple{&q, "q_proj_weight", "q_norm.weight"}, {&k, "k_proj_weight", "k_norm.weight"}}) {
    const reference::Matrix plain = x.cast<double>() * read(mha, weight).cast<double>().transpose();
    const reference::RowVector scale = read(mha, gamma).cast<double>().reshaped().transpose();
    for (Index h = 0; h < 2; ++h) {
      const RowMajorMatrix head = projected->values().middleCols(5 * h, 5);
      expectNear(head, reference::rmsNorm(plain.middleCols(5 * h, 5), scale, 1e-6).cast<float>());
    }
  }
  expectError(ErrorCode::kInvalidArgument, "keyValueHeads: expected ", [] {
    MultiHeadAttention wrong({.embed_dim = 6, .num_heads = 2, .key_value_heads = 1, .joint_qk_norm = true});
  });
  expectError(ErrorCode::kInvalidArgument, "keyValueHeads: expected a divisor of numHeads (4), got 3",
              [] { MultiHeadAttention wrong({.embed_dim = 8, .num_heads = 4, .key_value_heads = 3}); });
}

TEST(MultiHeadAttention, PruningAHeadEqualsMaskingIt) {
  auto mha = random({.embed_dim = 8, .num_heads = 4});
  MultiHeadAttention pruned({.embed_dim = 8, .num_heads = 2, .key_dim = 2, .value_dim = 2});
  const RowMajorMatrix w = read(mha, "in_proj_weight"), b = read(mha, "in_proj_bias"), o = read(mha, "out_proj.weight");
  // Heads 1 and 3 stay: features 2, 3 and 6, 7 of each projection.
  const std::vector<Index> kept = {2, 3, 6, 7};
  RowMajorMatrix bias(12, 1);
  for (Index part = 0; part < 3; ++part) {
    RowMajorMatrix rows(4, 8);
    for (Index i = 0; i < 4; ++i) {
      rows.row(i) = w.row(8 * part + kept[static_cast<size_t>(i)]);
      bias(4 * part + i, 0) = b(8 * part + kept[static_cast<size_t>(i)], 0);
    }
    write(pruned, std::string(1, "qkv"[part]) + "_proj_weight", rows);
  }
  write(pruned, "in_proj_bias", bias);
  write(pruned, "out_proj.weight", o(Eigen::all, kept));
  write(pruned, "out_proj.bias", read(mha, "out_proj.bias"));
  const RowMajorMatrix x = randomMatrix(5, 8, 2);
  const RowMajorMatrix factors = matrix({{0, 1, 0, 1}});
  AttentionOptions options;
  options.head_mask = valueOf(factors);
  expectNear(run(pruned, x).output, run(mha, x, options).output);
}

TEST(MultiHeadAttention, AddsTheResidual) {
  auto mha = random({.embed_dim = 8, .num_heads = 2});
  const RowMajorMatrix x = randomMatrix(5, 8, 2), plain = run(mha, x).output;
  Inference in;
  const Sequences one = Sequences::uniform(1, 5);
  const Value residual = in(x);
  const Value sum = mha.forward(in.e, {residual, residual, residual, one, one}, {}, nullptr, &residual);
  EXPECT_EQ(sum, residual) << "the residual's memory";
  expectNear(sum.values(), plain + x);
}

TEST(MultiHeadAttention, RotaryScoresDependOnlyOnDistance) {
  // With the same word at every position, all outputs are equal without rotation, and the weights depend only on j - i
  // with rotation.
  auto mha = random({.embed_dim = 8, .num_heads = 1});
  zero(mha, "in_proj_bias");
  const RowMajorMatrix x = randomMatrix(1, 8, 2).replicate(6, 1);
  const Rotary rotary(8, 6, 100, Rotary::Pairing::kInterleaved);
  AttentionOptions options;
  options.rotary = &rotary;
  const std::vector<float> a = run(mha, x, options).weights;
  const auto ratio = [&](size_t i, size_t j) { return a[6 * i + j] / a[6 * i + i]; };
  EXPECT_NEAR(ratio(1, 3), ratio(2, 4), 1e-4);
  EXPECT_NEAR(ratio(4, 1), ratio(5, 2), 1e-4);
  EXPECT_GT(std::abs(ratio(1, 3) - ratio(1, 2)), 1e-4);
}

TEST(MultiHeadAttention, DropoutDrawsInTrainingOnly) {
  auto mha = random({.embed_dim = 8, .num_heads = 2, .dropout = 0.5f});
  const RowMajorMatrix x = randomMatrix(9, 8, 2), plain = run(mha, x).output;
  mha.setTraining(true);
  mha.seed(4);
  const RowMajorMatrix first = run(mha, x).output, second = run(mha, x).output;
  EXPECT_NE(first, second);
  EXPECT_NE(first, plain);
  mha.seed(4);
  expectSame(run(mha, x).output, first);
  mha.setTraining(false);
  expectSame(run(mha, x).output, plain);
}

TEST(MultiHeadAttention, DoesNotAllocateAfterWarmUp) {
  auto mha = random({.embed_dim = 64, .num_heads = 4});
  const RowMajorMatrix x = randomMatrix(700, 64, 2);
  Context context;
  const Sequences one = Sequences::uniform(1, 700);
  const auto call = [&] {
    const Arena::Scope scope(context.arena);
    InferenceEvaluator e(context);
    mha.forward(e, {valueOf(x), valueOf(x), valueOf(x), one, one}, {});
  };
  call();
  call();
  const size_t held = context.arena.capacity();
  for (int i = 0; i < 5; ++i) call();
  EXPECT_EQ(context.arena.capacity(), held);
}

TEST(MultiHeadAttention, RejectsInvalidOptions) {
  using enum ErrorCode;
  const auto make = [](MultiHeadAttentionOptions options) { return [options] { MultiHeadAttention mha(options); }; };
  expectError(kInvalidArgument, "embedDim: expected at least 1, got 0", make({.embed_dim = 0, .num_heads = 1}));
  expectError(kInvalidArgument, "numHeads: expected at least 1, got 0", make({.embed_dim = 8, .num_heads = 0}));
  expectError(kInvalidArgument,
              "numHeads: expected a divisor of embedDim (8) unless keyDim and valueDim are given, got 3",
              make({.embed_dim = 8, .num_heads = 3}));
  expectError(kInvalidArgument,
              "numHeads: expected a divisor of embedDim (8) unless keyDim and valueDim are given, got 3",
              make({.embed_dim = 8, .num_heads = 3, .key_dim = 2}));
  expectError(kInvalidArgument, "keyDim: expected at least 0, got -1",
              make({.embed_dim = 8, .num_heads = 2, .key_dim = -1}));
  expectError(kInvalidArgument, "valueDim: expected at least 0, got -1",
              make({.embed_dim = 8, .num_heads = 2, .value_dim = -1}));
  expectError(kInvalidArgument, "keyInputDim: expected at least 0, got -1",
              make({.embed_dim = 8, .num_heads = 2, .key_input_dim = -1}));
  expectError(kInvalidArgument, "valueInputDim: expected at least 0, got -1",
              make({.embed_dim = 8, .num_heads = 2, .value_input_dim = -1}));
  expectError(kInvalidArgument, "dropout: expected a rate in [0, 1], got 1.5",
              make({.embed_dim = 8, .num_heads = 2, .dropout = 1.5f}));
  expectError(kOutOfMemory,
              "q_proj_weight: expected a size that fits into 4 GB of memory, got shape [2, 1073741824, 8]",
              make({.embed_dim = 8, .num_heads = 2, .key_dim = 1 << 30}));
  expectError(kOutOfMemory, "q_proj_weight: expected a size that fits into 4 GB of memory, got shape [",
              make({.embed_dim = 8, .num_heads = std::numeric_limits<Index>::max(), .key_dim = 2, .value_dim = 2}));
  EXPECT_NO_THROW(make({.embed_dim = 8, .num_heads = 3, .key_dim = 2, .value_dim = 5})());
}

TEST(MultiHeadAttention, RejectsIncompatibleShapes) {
  using enum ErrorCode;
  auto mha = random({.embed_dim = 8, .num_heads = 2, .key_input_dim = 6, .value_input_dim = 4});
  const RowMajorMatrix q = randomMatrix(3, 8, 1), k = randomMatrix(5, 6, 1), v = randomMatrix(5, 4, 1);
  EXPECT_NO_THROW(run(mha, q, k, v));
  expectError(kShapeMismatch, "query: expected [3, 8], got shape [3, 7]",
              [&] { run(mha, randomMatrix(3, 7, 1), k, v); });
  expectError(kShapeMismatch, "key: expected [5, 6], got shape [5, 8]", [&] { run(mha, q, randomMatrix(5, 8, 1), v); });
  expectError(kShapeMismatch, "value: expected [5, 4], got shape [5, 6]",
              [&] { run(mha, q, k, randomMatrix(5, 6, 1)); });
  expectError(kShapeMismatch, "value: expected [5, 4], got shape [4, 4]",
              [&] { run(mha, q, k, randomMatrix(4, 4, 1)); });
  expectError(kShapeMismatch, "key: expected [3, 6], got shape [3, 8]", [&] { run(mha, q, q, q); });
}

}  // namespace
}  // namespace heed
