#include <cmath>

#include "ops/attention_support.h"
#include "ops/reference.h"

/// Attention whose heads share keys, and attention with disentangled positions.
namespace heed {
namespace {

using namespace test;

TEST(GroupedQueryAttention, EqualsRepeatedKeysAndValues) {
  const Index heads = 6, dk = 5, dv = 3;
  const Sequences queries = Sequences::ofLengths({5, 0, 11}), keys = Sequences::ofLengths({7, 3, 11});
  const RowMajorMatrix q = 2 * randomMatrix(16, heads * dk, 1);
  for (const Index key_heads : {1, 2, 3, 6}) {
    const RowMajorMatrix k = 2 * randomMatrix(21, key_heads * dk, 2), v = randomMatrix(21, key_heads * dv, 3);
    RowMajorMatrix all_k(21, heads * dk), all_v(21, heads * dv);
    for (Index h = 0; h < heads; ++h) {
      const Index shared = h / (heads / key_heads);
      all_k.middleCols(h * dk, dk) = k.middleCols(shared * dk, dk);
      all_v.middleCols(h * dv, dv) = v.middleCols(shared * dv, dv);
    }
    for (const bool causal : {false, true}) {
      AttentionOptions grouped;
      grouped.causal = causal;
      if (!causal) grouped.window = 3;
      AttentionOptions repeated = grouped;
      grouped.key_heads = key_heads;
      const Attended got = attend(q, k, v, heads, queries, keys, grouped),
                     expected = attend(q, all_k, all_v, heads, queries, keys, repeated);
      expectSame(got.output, expected.output);
      EXPECT_EQ(got.weights, expected.weights);
    }
  }
}

TEST(GroupedQueryAttention, RejectsOtherNumbersOfHeads) {
  const RowMajorMatrix q = randomMatrix(2, 12, 1), k = randomMatrix(2, 6, 2);
  const Sequences two = Sequences::uniform(1, 2);
  AttentionOptions options;
  options.key_heads = 3;
  expectError(ErrorCode::kInvalidArgument, "keyHeads: expected a divisor of numHeads (4), got 3",
              [&] { attend(q, k, k, 4, two, two, options); });
  options.key_heads = 4;
  expectError(ErrorCode::kShapeMismatch, "", [&] { attend(q, k, k, 4, two, two, options); });
}

/// The formula for one sequence: M_ij = scale (Q_i PK_r^T + K_j PQ_r^T), r the row for i - j.
Attended expected(const RowMajorMatrix& q, const RowMajorMatrix& k, const RowMajorMatrix& v, Index heads, float scale,
                  const DisentangledPositions& positions, const AttentionOptions& options) {
  const Index dk = q.cols() / heads, dv = v.cols() / heads, most = positions.max_distance;
  Attended result{RowMajorMatrix(q.rows(), v.cols()), {}};
  for (Index h = 0; h < heads; ++h) {
    const auto head = [&](const auto& all) -> reference::Matrix {
      return all.middleCols(h * dk, dk).template cast<double>();
    };
    const reference::Matrix Q = head(q), K = head(k), PK = head(positions.key.values()),
                            PQ = head(positions.query.values());
    reference::Matrix M = reference::causalAndWindow(q.rows(), k.rows(), options.causal, options.window.value_or(-1),
                                                     options.query_offset);
    for (Index i = 0; i < q.rows(); ++i) {
      for (Index j = 0; j < k.rows(); ++j) {
        const Index row = positions.rows[most + std::clamp(options.query_offset + i - j, -most, most)];
        M(i, j) += static_cast<double>(scale) * (Q.row(i).dot(PK.row(row)) + K.row(j).dot(PQ.row(row)));
      }
    }
    const reference::Attention attended =
        reference::attention(Q, K, v.middleCols(h * dv, dv).cast<double>(), static_cast<double>(scale), M);
    for (const double weight : attended.weights.reshaped<Eigen::RowMajor>())
      result.weights.push_back(static_cast<float>(weight));
    result.output.middleCols(h * dv, dv) = attended.output.cast<float>();
  }
  return result;
}

TEST(DisentangledAttention, MatchesTheFormulaAtAwkwardSizes) {
  const Index heads = 2, most = 12, buckets = 6;
  std::vector<Index> rows;
  for (Index d = -most; d <= most; ++d) rows.push_back(std::clamp<Index>(logBucket(d, buckets, 13) + buckets, 0, 11));
  for (const Index dk : {1, 5, 8}) {
    const RowMajorMatrix key = randomMatrix(12, heads * dk, 1), query = randomMatrix(12, heads * dk, 2);
    const DisentangledPositions positions{
        .key = valueOf(key), .query = valueOf(query), .max_distance = most, .rows = rows.data()};
    for (const Index l : {1, 3, 9, 17}) {
      for (const Index s : {1, 7, 20}) {
        const RowMajorMatrix q = randomMatrix(l, heads * dk, 3), k = randomMatrix(s, heads * dk, 4),
                             v = randomMatrix(s, heads * 3, 5);
        for (const bool masked : {false, true}) {
          AttentionOptions options;
          options.scale = 0.4f;
          options.positions = &positions;
          options.causal = masked;
          if (masked) options.query_offset = 2;
          SCOPED_TRACE(Shape({dk, l, s, masked}).toString());
          const Attended got = attend(q, k, v, heads, Sequences::uniform(1, l), Sequences::uniform(1, s), options),
                         want = expected(q, k, v, heads, 0.4f, positions, options);
          expectNear(got.output, want.output);
          for (size_t i = 0; i < want.weights.size(); ++i) ASSERT_NEAR(got.weights[i], want.weights[i], 1e-5);
        }
      }
    }
  }
}

TEST(DisentangledAttention, ResultDoesNotDependOnOtherSequences) {
  const RowMajorMatrix x = randomMatrix(14, 8, 1), key = randomMatrix(10, 8, 2), query = randomMatrix(10, 8, 3);
  std::vector<Index> rows;
  for (Index d = -9; d <= 9; ++d) rows.push_back(std::clamp<Index>(d + 5, 0, 9));
  const DisentangledPositions positions{
      .key = valueOf(key), .query = valueOf(query), .max_distance = 9, .rows = rows.data()};
  AttentionOptions options;
  options.positions = &positions;
  const Sequences both = Sequences::ofLengths({4, 10}), second = Sequences::uniform(1, 10);
  const RowMajorMatrix rest = x.bottomRows(10);
  expectSame(attend(x, x, x, 2, both, both, options).output.bottomRows(10),
             attend(rest, rest, rest, 2, second, second, options).output);
}

TEST(LogBucket, IsExactNearZeroAndLogarithmicBeyond) {
  EXPECT_EQ(logBucket(0, 256, 512), 0);
  EXPECT_EQ(logBucket(128, 256, 512), 128);
  EXPECT_EQ(logBucket(129, 256, 512), 129);
  EXPECT_EQ(logBucket(-300, 256, 512), -logBucket(300, 256, 512));
  EXPECT_EQ(logBucket(511, 256, 512), 255);
  for (Index d = -511; d < 511; ++d) {
    const Index step = logBucket(d + 1, 256, 512) - logBucket(d, 256, 512);
    EXPECT_TRUE(step == 0 || step == 1) << d;
  }
}

}  // namespace
}  // namespace heed
