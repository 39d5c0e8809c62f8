#include "heed/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/attention_support.h"
#include "ops/reference.h"

namespace heed {
namespace {

using namespace test;

/// M: the sum of biases and masks of one head of one sequence.
reference::Matrix addedToScores(Index n, Index h, Index l, Index s, const AttentionOptions& options,
                                const std::vector<Mask>& masks) {
  reference::Matrix M =
      reference::causalAndWindow(l, s, options.causal, options.window.value_or(-1), options.query_offset);
  for (Index i = 0; i < l; ++i) {
    for (Index j = 0; j < s; ++j) {
      if (options.bias) {
        const Index most = options.bias.cols() / 2;
        M(i, j) +=
            static_cast<double>(options.bias.values()(h, most + std::clamp(j - options.query_offset - i, -most, most)));
      }
      for (const Mask& mask : masks) {
        const Index at = n * mask.strides[0] + h * mask.strides[1] + i * mask.strides[2] + j * mask.strides[3];
        if (mask.kind == Mask::Kind::kAdditive) {
          M(i, j) += static_cast<double>(static_cast<const float*>(mask.data)[at]);
        } else if (!static_cast<const uint8_t*>(mask.data)[at]) {
          M(i, j) = reference::kForbidden;
        }
      }
    }
  }
  return M;
}

/// The formula, head by head and sequence by sequence.
Attended expected(const RowMajorMatrix& q, const RowMajorMatrix& k, const RowMajorMatrix& v, Index heads,
                  const Sequences& queries, const Sequences& keys, const AttentionOptions& options) {
  const Index dk = q.cols() / heads, dv = v.cols() / heads;
  const double scale = options.scale ? static_cast<double>(*options.scale) : 1 / std::sqrt(static_cast<double>(dk));
  const std::vector<Mask> masks = broadcastMasks(options.masks, queries, heads, keys);
  Attended result{RowMajorMatrix(q.rows(), v.cols()), {}};
  for (Index n = 0; n < queries.count(); ++n) {
    const Index l = queries.length(n), s = keys.length(n);
    for (Index h = 0; h < heads; ++h) {
      const reference::Attention head = reference::attention(
          q.block(queries.begin(n), h * dk, l, dk).cast<double>(), k.block(keys.begin(n), h * dk, s, dk).cast<double>(),
          v.block(keys.begin(n), h * dv, s, dv).cast<double>(), scale, addedToScores(n, h, l, s, options, masks));
      for (const double weight : head.weights.reshaped<Eigen::RowMajor>())
        result.weights.push_back(static_cast<float>(weight));
      double head_mask = 1;
      if (options.head_mask)
        head_mask = static_cast<double>(options.head_mask.values()(options.head_mask.rows() > 1 ? n : 0, h));
      result.output.block(queries.begin(n), h * dv, l, dv) = (head_mask * head.output).cast<float>();
    }
  }
  return result;
}

void expectNear(const Attended& got, const Attended& expected) {
  test::expectNear(got.output, expected.output);
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (size_t i = 0; i < got.weights.size(); ++i)
    ASSERT_NEAR(got.weights[i], expected.weights[i], 1e-5 + 1e-4 * expected.weights[i]) << i;
}

TEST(Attention, MatchesHandComputedValues) {
  // Scores 0 and ln 3 after scaling by 1 / sqrt(1): weights 1/4 and 3/4.
  const Attended a = attend(matrix({{1}}), matrix({{0}, {std::log(3.0f)}}), matrix({{4, 8}, {8, 0}}));
  EXPECT_NEAR(a.weights[0], 0.25, 1e-6);
  EXPECT_NEAR(a.weights[1], 0.75, 1e-6);
  test::expectNear(a.output, matrix({{7, 2}}));
}

TEST(Attention, ScaleIsOneOverTheRootOfTheKeyWidth) {
  const RowMajorMatrix q = matrix({{1, 1, 1, 1}}), k = matrix({{0, 0, 0, 0}, {1, 1, 1, 1}}), v = matrix({{0}, {1}});
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_NEAR(attend(q, k, v).output(0, 0), sigmoid(2), 1e-6);
  AttentionOptions options;
  options.scale = 0.25f;
  EXPECT_NEAR(attend(q, k, v, options).output(0, 0), sigmoid(1), 1e-6);
}

TEST(Attention, MatchesTheFormulaAtAwkwardSizes) {
  uint64_t seed = 1;
  for (const Index heads : {1, 3}) {
    for (const Index dk : {1, 3, 5, 8}) {
      for (const Index dv : {1, 7}) {
        for (const Index l : {1, 3, 5, 17}) {
          for (const Index s : {1, 5, 7, 33}) {
            const Sequences queries = Sequences::uniform(2, l), keys = Sequences::uniform(2, s);
            const RowMajorMatrix q = 3 * randomMatrix(2 * l, heads * dk, seed++),
                                 k = 3 * randomMatrix(2 * s, heads * dk, seed++);
            const RowMajorMatrix v = randomMatrix(2 * s, heads * dv, seed++);
            SCOPED_TRACE(Shape({heads, dk, dv, l, s}).toString());
            expectNear(attend(q, k, v, heads, queries, keys), expected(q, k, v, heads, queries, keys, {}));
          }
        }
      }
    }
  }
}

TEST(Attention, MatchesTheFormulaWithEveryCombinationOfOptions) {
  // Three sequences of different lengths, one of them empty. The bits of `choice` enable the options.
  const Index heads = 2;
  const Sequences queries = Sequences::ofLengths({5, 0, 9, 1}), keys = Sequences::ofLengths({7, 3, 9, 0});
  const RowMajorMatrix q = 2 * randomMatrix(15, heads * 5, 1), k = 2 * randomMatrix(19, heads * 5, 2),
                       v = randomMatrix(19, heads * 3, 3);
  Generator generator(7);
  std::vector<uint8_t> allowed(4 * 2 * 9 * 9), allowed_keys(4 * 9);
  for (uint8_t& x : allowed) x = generator.uniform() < 0.7f;
  for (uint8_t& x : allowed_keys) x = generator.uniform() < 0.7f;
  const RowMajorMatrix added = 3 * randomMatrix(9, 9, 9);
  const RowMajorMatrix factors = matrix({{0.5f, -1}, {0, 1}, {2, 1}, {0.25f, 3}});
  const PositionBias bias = alibiBias(heads, 4);
  for (int choice = 0; choice < 256; ++choice) {
    const auto chosen = [choice](int bit) { return (choice >> bit & 1) == 1; };
    AttentionOptions options;
    std::vector<MaskTensor> masks;
    if (chosen(0)) masks.push_back({"mask", Mask::Kind::kBoolean, allowed.data(), {4, 2, 9, 9}});
    if (chosen(1)) masks.push_back({"keyMask", Mask::Kind::kBoolean, allowed_keys.data(), {4, 1, 1, 9}});
    if (chosen(2)) masks.push_back({"mask", Mask::Kind::kAdditive, added.data(), {9, 9}});
    options.masks = masks;
    options.causal = chosen(3);
    if (chosen(4)) options.window = 2;
    if (chosen(5)) options.bias = bias.value();
    if (chosen(6)) options.head_mask = valueOf(factors);
    if (chosen(7)) options.query_offset = 3;
    SCOPED_TRACE(choice);
    expectNear(attend(q, k, v, heads, queries, keys, options), expected(q, k, v, heads, queries, keys, options));
  }
}

TEST(Attention, WeightsOfEachRowSumToOne) {
  const Index s = 37;
  const Attended a = attend(5 * randomMatrix(11, 8, 1), 5 * randomMatrix(s, 8, 2), randomMatrix(s, 4, 3));
  for (size_t i = 0; i < 11; ++i) {
    double sum = 0;
    for (size_t j = 0; j < s; ++j) {
      EXPECT_GE(a.weights[i * s + j], 0);
      sum += static_cast<double>(a.weights[i * s + j]);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST(Attention, PermutingKeysAndValuesTogetherChangesNothing) {
  const RowMajorMatrix q = randomMatrix(4, 6, 1), k = randomMatrix(9, 6, 2), v = randomMatrix(9, 5, 3);
  test::expectNear(attend(q, k.colwise().reverse(), v.colwise().reverse()).output, attend(q, k, v).output);
}

TEST(Attention, EachOutputIsAnAverageOfValues) {
  const RowMajorMatrix v = randomMatrix(9, 5, 3);
  const RowMajorMatrix out = attend(4 * randomMatrix(6, 6, 1), 4 * randomMatrix(9, 6, 2), v).output;
  for (Index c = 0; c < 5; ++c) {
    EXPECT_LE(out.col(c).maxCoeff(), v.col(c).maxCoeff() + 1e-6f);
    EXPECT_GE(out.col(c).minCoeff(), v.col(c).minCoeff() - 1e-6f);
  }
}

TEST(Attention, LogitsOfTenThousandStayFinite) {
  AttentionOptions options;
  options.scale = 1;
  const Attended a = attend(matrix({{1e4f}, {-1e4f}}), matrix({{1}, {-1}, {0.5f}}), matrix({{1}, {2}, {3}}), options);
  test::expectNear(a.output, matrix({{1}, {2}}));
}

TEST(Attention, ConstantScoresGiveTheMean) {
  const RowMajorMatrix v = randomMatrix(7, 3, 1);
  test::expectNear(attend(RowMajorMatrix::Zero(1, 5), randomMatrix(7, 5, 2), v).output, v.colwise().mean());
}

TEST(Attention, NoKeysGiveZeros) {
  const RowMajorMatrix none(0, 4);
  expectSame(attend(randomMatrix(2, 4, 1), none, none).output, RowMajorMatrix::Zero(2, 4));
}

TEST(Attention, PropagatesNaN) {
  RowMajorMatrix q = randomMatrix(2, 4, 1);
  q(0, 2) = std::nanf("");
  const Attended a = attend(q, randomMatrix(5, 4, 2), randomMatrix(5, 4, 3));
  EXPECT_TRUE(std::isnan(a.output(0, 0)));
  EXPECT_FALSE(std::isnan(a.output(1, 0)));
}

TEST(Attention, RefusesMoreHeadsThanIndicesCount) {
  if constexpr (sizeof(Index) == 4) {
    std::vector<Index> lengths(1 << 16);
    lengths[5] = 1;
    const Sequences sequences = Sequences::ofLengths(lengths);
    const RowMajorMatrix x = randomMatrix(1, 1 << 16, 1);
    RowMajorMatrix y(1, 1 << 16);
    Context context;
    expectError(ErrorCode::kOutOfMemory, "shape:", [&] {
      attention({valueOf(x), valueOf(x), valueOf(x), sequences, sequences}, 1 << 16, {}, {window(y), nullptr}, context);
    });
  }
}

TEST(Attention, ResultDoesNotDependOnOtherSequences) {
  // Bit-identical, for lengths that are not multiples of a tile and rows at unaligned addresses.
  const Index heads = 3;
  const std::vector<Index> lengths = {1, 7, 4, 13, 6, 33};
  const Sequences all = Sequences::ofLengths(lengths);
  const RowMajorMatrix q = randomMatrix(all.totalRows(), heads * 5, 1), k = randomMatrix(all.totalRows(), heads * 5, 2),
                       v = randomMatrix(all.totalRows(), heads * 7, 3);
  AttentionOptions options;
  for (const bool causal : {false, true}) {
    options.causal = causal;
    const Attended together = attend(q, k, v, heads, all, all, options);
    auto weights = together.weights.begin();
    for (Index n = 0; n < all.count(); ++n) {
      const Sequences one = Sequences::uniform(1, all.length(n));
      const auto rows = [&](const RowMajorMatrix& m) {
        return RowMajorMatrix(m.middleRows(all.begin(n), all.length(n)));
      };
      const Attended alone = attend(rows(q), rows(k), rows(v), heads, one, one, options);
      expectSame(alone.output, rows(together.output));
      EXPECT_TRUE(std::equal(alone.weights.begin(), alone.weights.end(), weights));
      weights += static_cast<std::ptrdiff_t>(alone.weights.size());
    }
  }
}

TEST(Attention, ReturningWeightsDoesNotChangeTheOutput) {
  const RowMajorMatrix q = randomMatrix(19, 10, 1), k = randomMatrix(23, 10, 2), v = randomMatrix(23, 6, 3);
  Context context;
  RowMajorMatrix out(19, 6);
  attention({valueOf(q), valueOf(k), valueOf(v), Sequences::uniform(1, 19), Sequences::uniform(1, 23)}, 2, {},
            {window(out), nullptr}, context);
  expectSame(out, attend(q, k, v, 2, Sequences::uniform(1, 19), Sequences::uniform(1, 23)).output);
}

TEST(Attention, ReadsAndWritesStridedViews) {
  const RowMajorMatrix all = randomMatrix(6, 12, 1);
  const auto columns = [&](Index first) { return Value::constant(view(all.data() + first, 6, 4, 12)); };
  RowMajorMatrix out = RowMajorMatrix::Constant(6, 10, 5);
  Context context;
  attention({columns(0), columns(4), columns(8), Sequences::uniform(1, 6), Sequences::uniform(1, 6)}, 2, {},
            {view(out.data() + 3, 6, 4, 10), nullptr}, context);
  const auto copy = [&](Index first) { return RowMajorMatrix(all.middleCols(first, 4)); };
  expectSame(out.middleCols(3, 4),
             attend(copy(0), copy(4), copy(8), 2, Sequences::uniform(1, 6), Sequences::uniform(1, 6)).output);
  EXPECT_TRUE((out.leftCols(3).array() == 5).all());
  EXPECT_TRUE((out.rightCols(3).array() == 5).all());
}

TEST(Attention, HeadMaskOfZeroSwitchesAHeadOff) {
  const RowMajorMatrix q = randomMatrix(4, 6, 1), k = randomMatrix(4, 6, 2), v = randomMatrix(4, 6, 3);
  const Sequences s = Sequences::uniform(1, 4);
  const RowMajorMatrix factors = matrix({{1, 0}});
  AttentionOptions options;
  options.head_mask = valueOf(factors);
  const Attended plain = attend(q, k, v, 2, s, s), off = attend(q, k, v, 2, s, s, options);
  expectSame(off.output.leftCols(3), plain.output.leftCols(3));
  expectSame(off.output.rightCols(3), RowMajorMatrix::Zero(4, 3));
  EXPECT_EQ(off.weights, plain.weights);  // weights are those before the head mask
}

TEST(Attention, ComputesEveryQueryOfALongSequence) {
  const Index l = 150'000;  // the number of row blocks times the number of queries exceeds 32 bits
  const RowMajorMatrix q = randomMatrix(l, 2, 1), k = randomMatrix(3, 2, 2), v = randomMatrix(3, 2, 3);
  const RowMajorMatrix out = attend(q, k, v).output;
  for (const Index i : {Index{0}, l / 2, Index{103'000}, l - 1}) {
    const RowMajorMatrix one = q.row(i);
    expectSame(out.row(i), attend(one, k, v).output);
  }
  EXPECT_TRUE(out.allFinite());
  EXPECT_LE(out.maxCoeff(), v.maxCoeff() + 1e-6f);
}

TEST(Attention, MemoryDoesNotGrowWithLTimesS) {
  const Index l = 600;
  const RowMajorMatrix q = randomMatrix(l, 4, 1);
  RowMajorMatrix out(l, 4);
  Context context;
  attention({valueOf(q), valueOf(q), valueOf(q), Sequences::uniform(1, l), Sequences::uniform(1, l)}, 1, {},
            {window(out), nullptr}, context);
  EXPECT_LT(context.arena.capacity(), static_cast<size_t>(l * l) * sizeof(float));
}

TEST(Attention, RejectsIncompatibleShapes) {
  const RowMajorMatrix q = randomMatrix(3, 6, 1), k = randomMatrix(4, 6, 2), v = randomMatrix(4, 9, 3);
  const Sequences l = Sequences::uniform(1, 3), s = Sequences::uniform(1, 4);
  using enum ErrorCode;
  expectError(kInvalidArgument, "numHeads: expected at least 1, got 0", [&] { attend(q, k, v, 0, l, s); });
  expectError(kShapeMismatch, "query: expected a multiple of numHeads (4), got width 6",
              [&] { attend(q, k, v, 4, l, s); });
  expectError(kShapeMismatch, "value: expected a multiple of numHeads (2), got width 9",
              [&] { attend(q, k, v, 2, l, s); });
  expectError(kShapeMismatch, "query: expected [4, 6], got shape [3, 6]", [&] { attend(q, k, v, 3, s, s); });
  expectError(kShapeMismatch, "key: expected [3, 6], got shape [4, 6]", [&] { attend(q, k, v, 3, l, l); });
  expectError(kShapeMismatch, "key: expected [4, 6], got shape [4, 5]",
              [&] { attend(q, randomMatrix(4, 5, 1), v, 3, l, s); });
  expectError(kShapeMismatch, "value: expected [4, 9], got shape [5, 9]",
              [&] { attend(q, k, randomMatrix(5, 9, 1), 3, l, s); });
  expectError(kShapeMismatch, "key: expected as many sequences as query (1), got 2",
              [&] { attend(q, k, v, 3, l, Sequences::uniform(2, 2)); });
}

TEST(Attention, RejectsInvalidOptions) {
  const RowMajorMatrix x = randomMatrix(3, 6, 1);
  const Sequences s = Sequences::uniform(1, 3);
  const auto with = [&](auto change) {
    return [&, change] {
      AttentionOptions options;
      change(options);
      attend(x, x, x, 3, s, s, options);
    };
  };
  const RowMajorMatrix five = RowMajorMatrix::Ones(1, 5);
  const PositionBias bias = alibiBias(2, 4);
  const std::string most = std::to_string(std::numeric_limits<Index>::max() / 4 - 3);
  using enum ErrorCode;
  expectError(kInvalidArgument, "scale: expected a finite number, got NaN",
              with([](AttentionOptions& o) { o.scale = std::nanf(""); }));
  expectError(kInvalidArgument, "window: expected at least 0, got -1",
              with([](AttentionOptions& o) { o.window = -1; }));
  expectError(kInvalidArgument, "queryOffset: expected an integer from 0 to " + most + ", got -1",
              with([](AttentionOptions& o) { o.query_offset = -1; }));
  expectError(kInvalidArgument, "dropout: expected a rate in [0, 1], got 1.5",
              with([](AttentionOptions& o) { o.dropout = 1.5f; }));
  expectError(kInvalidArgument, "queryOffset: expected an integer from 0 to " + most + ", got ",
              with([](AttentionOptions& o) { o.query_offset = std::numeric_limits<Index>::max(); }));
  expectError(kShapeMismatch, "headMask: expected [1, 3], got shape [1, 5]",
              with([&](AttentionOptions& o) { o.head_mask = valueOf(five); }));
  expectError(kShapeMismatch, "bias: expected [3, 9], got shape [2, 9]",
              with([&](AttentionOptions& o) { o.bias = bias.value(); }));
}

}  // namespace
}  // namespace heed
