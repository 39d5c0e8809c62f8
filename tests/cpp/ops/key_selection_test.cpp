#include "ops/key_selection.h"

#include <cmath>
#include <limits>

#include "ops/mask.h"
#include "ops/reference.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

std::vector<std::pair<Index, Index>> pairs(std::span<const Range> ranges) {
  std::vector<std::pair<Index, Index>> all;
  for (const Range& range : ranges) all.emplace_back(range.begin, range.end);
  return all;
}

using Pairs = std::vector<std::pair<Index, Index>>;

TEST(KeySelection, SelectsAllKeysWithoutMasks) {
  Arena arena;
  const AttentionOptions options;
  const KeySelection selection(0, 0, 20, options, {}, arena);
  EXPECT_EQ(selection.selected().count, 20);
  const VisibleKeys visible(selection, 3, 2, arena);
  EXPECT_EQ(pairs(visible.ranges()), (Pairs{{0, 20}}));
}

TEST(KeySelection, LeavesOutTheKeysOfAPaddingMask) {
  Arena arena;
  std::vector<uint8_t> allowed(20, 1);
  for (const size_t j : {0, 5, 19}) allowed[j] = 0;
  const Mask mask{Mask::Kind::kBoolean, allowed.data(), {0, 0, 0, 1}};
  AttentionOptions options;
  const KeySelection selection(0, 0, 20, options, {&mask, 1}, arena);
  EXPECT_EQ(selection.selected().count, 17);
  EXPECT_EQ(selection.selected()[0], 1);
  EXPECT_EQ(selection.selected()[4], 6);
  const VisibleKeys visible(selection, 0, 1, arena);
  std::vector<Index> keys;
  visible.forEach([&](Index key, Index column) {
    EXPECT_EQ(column, static_cast<Index>(keys.size()));
    keys.push_back(key);
  });
  EXPECT_EQ(keys.size(), 17u);
  EXPECT_EQ(keys.back(), 18);
}

TEST(KeySelection, CausalityAndWindowSkipWholePanelsOfEight) {
  Arena arena;
  AttentionOptions options;
  options.causal = true;
  options.window = 4;
  const KeySelection selection(0, 0, 100, options, {}, arena);
  EXPECT_EQ(selection.visibleTo(2).begin, 0);
  EXPECT_EQ(selection.visibleTo(2).end, 3);
  EXPECT_EQ(selection.visibleTo(50).begin, 46);
  EXPECT_EQ(selection.visibleTo(50).end, 51);
  // Queries 50 to 53 see keys 46 to 53, from the panel that begins at 40 on.
  const VisibleKeys visible(selection, 50, 4, arena);
  EXPECT_EQ(pairs(visible.ranges()), (Pairs{{40, 54}}));
  EXPECT_EQ(visible.count(), 14);
}

TEST(KeySelection, AMaskHidesPanelsFromABlock) {
  Arena arena;
  std::vector<float> added(4 * 40, 0);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 8; j < 24; ++j) added[i * 40 + j] = -std::numeric_limits<float>::infinity();
  }
  added[2 * 40 + 17] = 1;  // one query sees one key of the third panel
  const Mask mask{Mask::Kind::kAdditive, added.data(), {0, 0, 40, 1}};
  AttentionOptions options;
  const KeySelection selection(0, 0, 40, options, {&mask, 1}, arena);
  EXPECT_EQ(pairs(VisibleKeys(selection, 0, 2, arena).ranges()), (Pairs{{0, 8}, {24, 40}}));
  EXPECT_EQ(pairs(VisibleKeys(selection, 0, 4, arena).ranges()), (Pairs{{0, 8}, {16, 40}}));
}

TEST(KeySelection, AddsWhatTheFormulaAdds) {
  Arena arena;
  const PositionBias bias = alibiBias(1, 30);
  std::vector<uint8_t> allowed(30, 1);
  allowed[7] = allowed[8] = 0;
  const Mask mask{Mask::Kind::kBoolean, allowed.data(), {0, 0, 0, 1}};
  AttentionOptions options;
  options.causal = true;
  options.window = 11;
  options.bias = bias.value();
  options.query_offset = 3;
  const KeySelection selection(0, 0, 30, options, {&mask, 1}, arena);
  reference::Matrix M = reference::causalAndWindow(20, 30, true, 11, 3);
  for (Index first = 0; first < 20; first += 5) {
    const VisibleKeys visible(selection, first, 5, arena);
    for (Index r = 0; r < 5; ++r) {
      std::vector<float> scores(static_cast<size_t>(visible.count()), 0);
      visible.addBiasAndMasks(r, scores.data());
      std::vector<double> added(30, reference::kForbidden);
      visible.forEach(
          [&](Index key, Index column) { added[static_cast<size_t>(key)] = scores[static_cast<size_t>(column)]; });
      for (Index j = 0; j < 30; ++j) {
        const Index i = first + r;
        double expected = M(i, j) - std::abs(static_cast<double>(i + 3 - j)) * std::pow(2.0, -8);
        if (j == 7 || j == 8) expected = reference::kForbidden;
        EXPECT_EQ(std::isinf(expected), std::isinf(added[static_cast<size_t>(j)])) << i << ", " << j;
        if (std::isfinite(expected)) EXPECT_NEAR(added[static_cast<size_t>(j)], expected, 1e-6);
      }
    }
  }
}

TEST(KeySelection, ReportsAndGathersTheKeysOfOneQuery) {
  Arena arena;
  std::vector<uint8_t> allowed(2 * 24, 0);
  for (const size_t j : {1, 2, 3, 9, 20}) allowed[j] = 1;
  allowed[24 + 23] = 1;
  const Mask mask{Mask::Kind::kBoolean, allowed.data(), {0, 0, 24, 1}};
  AttentionOptions options;
  const KeySelection selection(0, 0, 24, options, {&mask, 1}, arena);
  const VisibleKeys visible(selection, 0, 2, arena);
  std::vector<float> row(static_cast<size_t>(visible.count()));
  visible.forEach([&](Index key, Index column) { row[static_cast<size_t>(column)] = static_cast<float>(key); });
  visible.addBiasAndMasks(0, row.data());
  const std::span<const Range> keys = visible.allowed(row.data(), kForbidden, arena);
  EXPECT_EQ(pairs(keys), (Pairs{{1, 4}, {9, 10}, {20, 21}}));
  visible.compactRow(keys, row.data());
  row.resize(5);
  EXPECT_EQ(row, (std::vector<float>{1, 2, 3, 9, 20}));
}

}  // namespace
}  // namespace heed
