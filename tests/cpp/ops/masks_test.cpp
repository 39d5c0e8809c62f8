#include <array>

#include "ops/attention_support.h"

/// Masks: which keys a query may attend to, and that other keys have no effect.
namespace heed {
namespace {

using namespace test;

TEST(Attention, ForbiddenKeysHaveNoEffect) {
  // An additive mask of -infinity, a boolean mask and removing the key are equivalent.
  const RowMajorMatrix q = randomMatrix(3, 4, 1), k = randomMatrix(5, 4, 2), v = randomMatrix(5, 4, 3);
  const uint8_t allowed[] = {1, 1, 1, 0, 0};
  const float added[] = {0, 0, 0, -kInfinity, -kInfinity};
  const RowMajorMatrix expected = attend(q, k.topRows(3), v.topRows(3)).output;
  for (const MaskTensor& mask : {MaskTensor{"mask", Mask::Kind::kBoolean, allowed, {5}},
                                 MaskTensor{"mask", Mask::Kind::kAdditive, added, {5}}}) {
    AttentionOptions options;
    options.masks = {&mask, 1};
    const Attended a = attend(q, k, v, options);
    test::expectNear(a.output, expected);
    EXPECT_EQ(a.weights[3], 0);
  }
}

TEST(Attention, LowestFloatMasksAsInPyTorch) {
  // Added to all keys, it absorbs the scores and gives a uniform average; added to some keys, it masks them.
  const float lowest = std::numeric_limits<float>::lowest();
  const RowMajorMatrix q = randomMatrix(1, 4, 1), k = randomMatrix(3, 4, 2), v = randomMatrix(3, 4, 3);
  const float all[] = {lowest, lowest, lowest}, some[] = {0, lowest, lowest};
  MaskTensor mask = MaskTensor{"mask", Mask::Kind::kAdditive, all, {3}};
  AttentionOptions options;
  options.masks = {&mask, 1};
  test::expectNear(attend(q, k, v, options).output, v.colwise().mean());
  mask.data = some;
  test::expectNear(attend(q, k, v, options).output, v.topRows(1));
}

TEST(Attention, FullyMaskedQueriesGiveZeros) {
  const RowMajorMatrix q = randomMatrix(2, 4, 1), k = randomMatrix(3, 4, 2), v = randomMatrix(3, 4, 3);
  const uint8_t allowed[] = {0, 0, 0, 1, 0, 0};
  const MaskTensor mask = MaskTensor{"mask", Mask::Kind::kBoolean, allowed, {2, 3}};
  AttentionOptions options;
  options.masks = {&mask, 1};
  const Attended a = attend(q, k, v, options);
  for (size_t j = 0; j < 3; ++j) EXPECT_EQ(a.weights[j], 0);
  expectSame(a.output.topRows(1), RowMajorMatrix::Zero(1, 4));
  test::expectNear(a.output.bottomRows(1), v.topRows(1));
}

TEST(Attention, CausalQueriesDoNotAttendToLaterKeys) {
  const Index l = 13;
  RowMajorMatrix q = randomMatrix(l, 4, 1), k = randomMatrix(l, 4, 2), v = randomMatrix(l, 4, 3);
  AttentionOptions options;
  options.causal = true;
  const RowMajorMatrix before = attend(q, k, v, options).output;
  k.bottomRows(5) = 9 * randomMatrix(5, 4, 4);
  v.bottomRows(5).setConstant(std::nanf(""));
  const RowMajorMatrix after = attend(q, k, v, options).output;
  expectSame(after.topRows(l - 5), before.topRows(l - 5));
  EXPECT_TRUE(after.bottomRows(5).array().isNaN().all());
  expectSame(before.topRows(1), randomMatrix(l, 4, 3).topRows(1));  // the first query attends to one key
}

TEST(Attention, WindowedQueriesDoNotAttendToDistantKeys) {
  const Index l = 40;
  RowMajorMatrix q = randomMatrix(l, 4, 1), k = randomMatrix(l, 4, 2), v = randomMatrix(l, 4, 3);
  AttentionOptions options;
  options.window = 3;
  const RowMajorMatrix before = attend(q, k, v, options).output;
  k.topRows(20).setConstant(7);
  v.topRows(20).setConstant(std::nanf(""));
  expectSame(attend(q, k, v, options).output.bottomRows(l - 23), before.bottomRows(l - 23));

  options.window = 0;
  expectSame(attend(q, k, randomMatrix(l, 4, 3), options).output, randomMatrix(l, 4, 3));
  options.window = std::numeric_limits<Index>::max();
  expectSame(attend(q, k, before, options).output, attend(q, k, before).output);
}

/// Masks of every kind over (4, 2, 9, 9), and which of them apply.
struct SomeMasks {
  explicit SomeMasks(uint64_t seed) : added(9, 9), blocks(81) {
    Generator generator(seed);
    for (uint8_t& x : allowed) x = generator.uniform() < 0.7f;
    for (uint8_t& x : allowed_keys) x = generator.uniform() < 0.7f;
    for (Index i = 0; i < added.size(); ++i)
      added.data()[i] = generator.uniform() < 0.7f ? generator.uniform() : -kInfinity;
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = i / 9 / 5 == i % 9 / 8;  // either only the last key or all others
  }
  std::vector<MaskTensor> choose(int choice) const {
    using enum Mask::Kind;
    std::vector<MaskTensor> masks;
    if (choice & 1) masks.push_back(MaskTensor{"mask", kBoolean, allowed.data(), {4, 2, 9, 9}});
    if (choice & 2) masks.push_back(MaskTensor{"keyMask", kBoolean, allowed_keys.data(), {4, 1, 1, 9}});
    if (choice & 4) masks.push_back(MaskTensor{"mask", kAdditive, added.data(), {9, 9}});
    if (choice & 8) masks.push_back(MaskTensor{"keyMask", kAdditive, added.data(), {9}});
    if (choice & 16) masks.push_back(MaskTensor{"mask", kBoolean, blocks.data(), {9, 9}});
    return masks;
  }
  std::array<uint8_t, 4 * 2 * 9 * 9> allowed{};
  std::array<uint8_t, 4 * 9> allowed_keys{};
  RowMajorMatrix added;
  std::vector<uint8_t> blocks;
};

TEST(Attention, NaNInForbiddenKeysDoesNotPropagate) {
  // One key and its value are NaN. Queries that may not attend to it give the same bits as before, all others NaN.
  const Index heads = 2, dv = 3;
  const Sequences queries = Sequences::ofLengths({5, 0, 9, 1}), keys = Sequences::ofLengths({7, 3, 9, 2});
  const RowMajorMatrix q = randomMatrix(15, heads * 4, 1), k = randomMatrix(21, heads * 4, 2),
                       v = randomMatrix(21, heads * dv, 3);
  const SomeMasks some(5);
  for (int choice = 0; choice < 128; ++choice) {
    const std::vector<MaskTensor> masks = some.choose(choice);
    AttentionOptions options;
    options.masks = masks;
    options.causal = choice & 32;
    if (choice & 64) options.window = 3;
    const Attended clean = attend(q, k, v, heads, queries, keys, options);
    for (const float poison : {std::nanf(""), kInfinity}) {
      for (const Index n : {0, 2, 3}) {
        for (Index j = 0; j < keys.length(n); ++j) {
          SCOPED_TRACE(Shape({choice, n, j}).toString());
          RowMajorMatrix spoilt_k = k, spoilt_v = v;
          spoilt_k.row(keys.begin(n) + j).setConstant(std::nanf(""));
          spoilt_v.row(keys.begin(n) + j).setConstant(poison);
          const Attended spoilt = attend(q, spoilt_k, spoilt_v, heads, queries, keys, options);
          for (Index m = 0, first = 0; m < queries.count(); first += heads * queries.length(m) * keys.length(m), ++m) {
            for (Index h = 0; h < heads; ++h) {
              for (Index i = 0; i < queries.length(m); ++i) {
                const auto outputs = [&](const Attended& a) {
                  return a.output.row(queries.begin(m) + i).segment(h * dv, dv);
                };
                const Index row = first + (h * queries.length(m) + i) * keys.length(m);
                if (m == n && clean.weights[static_cast<size_t>(row + j)] > 0) {
                  ASSERT_TRUE(outputs(spoilt).array().isNaN().all()) << m << h << i;
                } else {
                  ASSERT_EQ(outputs(spoilt), outputs(clean)) << m << h << i;
                  for (Index key = row; key < row + keys.length(m); ++key)
                    ASSERT_EQ(spoilt.weights[static_cast<size_t>(key)], clean.weights[static_cast<size_t>(key)]);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(Attention, InfiniteValueReachesTheQueriesThatMayAttendToIt) {
  RowMajorMatrix v = randomMatrix(3, 2, 3);
  v(2, 0) = kInfinity;
  AttentionOptions options;
  options.causal = true;
  const RowMajorMatrix out = attend(randomMatrix(3, 4, 1), randomMatrix(3, 4, 2), v, options).output;
  EXPECT_TRUE(out.topRows(2).allFinite());
  EXPECT_EQ(out(2, 0), kInfinity);
  EXPECT_TRUE(std::isfinite(out(2, 1)));
}

TEST(Attention, EquivalentMasksGiveIdenticalBits) {
  // Causality, a window and padding, as options, as one boolean mask, and as one additive mask of 0 and -infinity.
  const Index l = 45, s = 61, padded = 30;
  const RowMajorMatrix q = 3 * randomMatrix(l, 8, 1), k = 3 * randomMatrix(s, 8, 2), v = randomMatrix(s, 8, 3);
  std::vector<uint8_t> allowed(static_cast<size_t>(l * s)), real(static_cast<size_t>(s));
  std::vector<float> added(allowed.size());
  for (Index i = 0; i < l; ++i) {
    for (Index j = 0; j < s; ++j) {
      const bool sees = j <= i && i - j <= 20 && j < padded, is_real = j < padded;
      allowed[static_cast<size_t>(i * s + j)] = sees;
      added[static_cast<size_t>(i * s + j)] = sees ? 0 : -kInfinity;
      real[static_cast<size_t>(j)] = is_real;
    }
  }
  const MaskTensor padding = MaskTensor{"keyMask", Mask::Kind::kBoolean, real.data(), {s}},
                   boolean = MaskTensor{"mask", Mask::Kind::kBoolean, allowed.data(), {l, s}},
                   additive = MaskTensor{"mask", Mask::Kind::kAdditive, added.data(), {l, s}};
  AttentionOptions by_name, by_mask;
  by_name.causal = true;
  by_name.window = 20;
  by_name.masks = {&padding, 1};
  const Attended named = attend(q, k, v, by_name);
  for (const MaskTensor& mask : {boolean, additive}) {
    by_mask.masks = {&mask, 1};
    const Attended masked = attend(q, k, v, by_mask);
    expectSame(masked.output, named.output);
    EXPECT_EQ(masked.weights, named.weights);
  }
}

TEST(Attention, PaddedSequencesAreBitIdenticalToUnpaddedOnes) {
  const Index l = 21, s = 40, real = 27;
  const RowMajorMatrix q = randomMatrix(l, 8, 1), k = randomMatrix(s, 8, 2), v = randomMatrix(s, 8, 3);
  const RowMajorMatrix alone = attend(q, k.topRows(real), v.topRows(real)).output;
  std::vector<uint8_t> is_real(static_cast<size_t>(s));
  std::fill_n(is_real.begin(), real, uint8_t{1});
  const MaskTensor mask = MaskTensor{"keyMask", Mask::Kind::kBoolean, is_real.data(), {s}};
  AttentionOptions options;
  options.masks = {&mask, 1};
  expectSame(attend(q, k, v, options).output, alone);
}

TEST(Mask, FitsABatchWithoutSequences) {
  const Sequences queries = Sequences::uniform(0, 5), keys = Sequences::uniform(0, 7);
  const auto broadcast = [&](const Shape& shape, bool per_key) {
    const MaskTensor mask{"mask", Mask::Kind::kBoolean, nullptr, shape, per_key};
    return broadcastMasks({&mask, 1}, queries, 2, keys).size();
  };
  for (const Shape& shape : {Shape{5, 7}, Shape{7}, Shape{1, 7}, Shape{0, 1, 5, 7}, Shape{0, 2, 5, 7}})
    EXPECT_EQ(broadcast(shape, false), 1U) << shape.toString();
  EXPECT_EQ(broadcast({0, 7}, true), 1U);
  expectError(ErrorCode::kShapeMismatch, "mask: expected a shape that broadcasts to [0, 2, 5, 7], got shape [5, 6]",
              [&] { broadcast({5, 6}, false); });
  expectError(ErrorCode::kShapeMismatch, "mask: expected [0, 7], got shape [0, 5]", [&] { broadcast({0, 5}, true); });
}

TEST(Mask, RejectsNaNInAdditiveMasks) {
  const float added[] = {0, -kInfinity, kInfinity, 3, 4, 5}, spoilt[] = {0, 0, 0, 0, 0, std::nanf("")};
  EXPECT_EQ(MaskTensor::additive("mask", added, {2, 3}).data, added);
  expectError(ErrorCode::kInvalidArgument, "mask: expected numbers, or -Infinity for forbidden keys, got NaN",
              [&] { MaskTensor::additive("mask", spoilt, {2, 3}); });
}

TEST(Mask, BroadcastsFromTheRight) {
  const std::array<Index, 4> target{2, 3, 4, 5};
  const auto strides = [&](const Shape& shape) {
    return Mask::broadcast("mask", Mask::Kind::kBoolean, nullptr, shape, target).strides;
  };
  EXPECT_EQ(strides({}), (std::array<Index, 4>{0, 0, 0, 0}));
  EXPECT_EQ(strides({5}), (std::array<Index, 4>{0, 0, 0, 1}));
  EXPECT_EQ(strides({4, 1}), (std::array<Index, 4>{0, 0, 1, 0}));
  EXPECT_EQ(strides({2, 1, 1, 5}), (std::array<Index, 4>{5, 0, 0, 1}));
  EXPECT_EQ(strides({2, 3, 4, 5}), (std::array<Index, 4>{60, 20, 5, 1}));
  for (const Shape& shape : {Shape{4}, Shape{3, 5}, Shape{2, 2, 4, 5}, Shape{1, 2, 3, 4, 5}, Shape{0}}) {
    expectError(ErrorCode::kShapeMismatch,
                "mask: expected a shape that broadcasts to [2, 3, 4, 5], got shape " + shape.toString(),
                [&] { strides(shape); });
  }
}

}  // namespace
}  // namespace heed
