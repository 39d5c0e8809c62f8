#include <cmath>

#include "ops/attention_support.h"

namespace heed {
namespace {

using namespace test;

TEST(AttentionDropout, PreservesTheExpectationAndIsReproducible) {
  const Index l = 200;
  const RowMajorMatrix q = randomMatrix(l, 4, 1), k = randomMatrix(l, 4, 2), v = RowMajorMatrix::Ones(l, 1);
  AttentionOptions options;
  options.dropout = 0.25f;
  const auto run = [&](uint64_t seed) {
    options.dropout_key.seed = seed;
    return attend(q, k, v, options);
  };
  const Attended first = run(1), again = run(1), other = run(2);
  expectSame(first.output, again.output);
  EXPECT_NE(first.output, other.output);
  EXPECT_EQ(first.weights, attend(q, k, v).weights);  // weights are those before dropout
  // Each output is a weighted sum of 0 or 1 / 0.75: 40,000 draws of about equal weight.
  EXPECT_NEAR(first.output.mean(), 1, 4 * std::sqrt(0.25 / 0.75 / (l * l)) * 1.1);
}

TEST(AttentionDropout, DoesNotDependOnWhatIsSkipped) {
  // If the values are the identity matrix, the output is the weights after dropout.
  const Index l = 37;
  const RowMajorMatrix q = randomMatrix(l, 4, 1), v = RowMajorMatrix::Identity(l, l);
  AttentionOptions options;
  options.dropout = 0.5f;
  options.dropout_key = {.seed = 5, .step = 2};
  const RowMajorMatrix all = attend(q, q, v, options).output;
  const auto expectDraws = [&](const AttentionOptions& o) {
    const Attended some = attend(q, q, v, o);
    for (Index i = 0; i < l; ++i) {
      for (Index j = 0; j < l; ++j) {
        if (some.weights[static_cast<size_t>(i * l + j)] != 0) {
          EXPECT_EQ(some.output(i, j) == 0, all(i, j) == 0);
        }
      }
    }
  };
  AttentionOptions causal = options;
  causal.causal = true;
  expectDraws(causal);
  AttentionOptions window = options;
  window.window = 3;
  expectDraws(window);
  std::vector<uint8_t> allowed(static_cast<size_t>(l));
  for (size_t j = 0; j < allowed.size(); ++j) allowed[j] = j % 3 != 1;
  const MaskTensor mask{"mask", Mask::Kind::kBoolean, allowed.data(), {l}};
  AttentionOptions masked = options;
  masked.masks = {&mask, 1};
  expectDraws(masked);
  // Only some of the queries, as in a decoding step.
  AttentionOptions later = options;
  later.query_offset = 30;
  const RowMajorMatrix end = q.bottomRows(7);
  const RowMajorMatrix part = attend(end, q, v, 1, Sequences::uniform(1, 7), Sequences::uniform(1, l), later).output;
  for (Index i = 0; i < 7; ++i) {
    for (Index j = 0; j < l; ++j) EXPECT_EQ(part(i, j) == 0, all(30 + i, j) == 0);
  }
}

TEST(AttentionDropout, OfAPartEqualsThatOfTheBatch) {
  const RowMajorMatrix q = randomMatrix(20, 6, 1), later = q.bottomRows(10);
  AttentionOptions options;
  options.dropout = 0.4f;
  const RowMajorMatrix whole = attend(q, q, q, 2, Sequences::uniform(4, 5), Sequences::uniform(4, 5), options).output;
  Context context;
  context.random.first_sequence = 2;
  RowMajorMatrix part(10, 6);
  const Sequences two = Sequences::uniform(2, 5);
  attention({valueOf(later), valueOf(later), valueOf(later), two, two}, 2, options, {window(part)}, context);
  expectSame(part, whole.bottomRows(10));
}

TEST(AttentionDropout, RateOneGivesZeros) {
  const RowMajorMatrix q = randomMatrix(5, 4, 1);
  AttentionOptions options;
  options.dropout = 1;
  expectSame(attend(q, q, q, options).output, RowMajorMatrix::Zero(5, 4));
}

}  // namespace
}  // namespace heed
