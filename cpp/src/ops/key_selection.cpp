#include "ops/key_selection.h"

#include <algorithm>
#include <numeric>

#include "ops/mask.h"

namespace heed {
namespace {

bool sameForAllQueries(const Mask& mask) { return mask.strides[2] == 0; }

bool forbids(const Mask& mask, Index at) {
  if (mask.kind == Mask::Kind::kBoolean) return !static_cast<const uint8_t*>(mask.data)[at];
  return static_cast<const float*>(mask.data)[at] == kForbidden;
}

/// The offset of a mask's first entry for query i of sequence n and head h.
Index firstEntry(const Mask& mask, Index n, Index h, Index i) {
  return n * mask.strides[0] + h * mask.strides[1] + i * mask.strides[2];
}

/// The keys that the query at `position` may attend to: keys 0 .. position if causal, and |position - j| <= window.
Range causalAndWindow(Index position, Index num_keys, const AttentionOptions& options) {
  Range range{0, num_keys};
  if (options.causal) range.end = std::min(range.end, position + 1);
  if (options.window) {
    // A larger radius has the same effect, but its sums could overflow.
    const Index radius = std::min(*options.window, position + num_keys);
    range.begin = std::max<Index>(range.begin, position - radius);
    range.end = std::min(range.end, position + radius + 1);
  }
  range.begin = std::min(range.begin, range.end);
  return range;
}

}  // namespace

KeySelection::KeySelection(Index n, Index h, Index num_keys, const AttentionOptions& options,
                           std::span<const Mask> masks, Arena& arena)
    : n_(n), h_(h), num_keys_(num_keys), options_(options), masks_(masks), selected_{nullptr, num_keys} {
  if (std::ranges::none_of(masks, sameForAllQueries)) return;
  auto* key_indices = arena.take<Index>(num_keys);
  std::iota(key_indices, key_indices + num_keys, Index{0});
  auto* end = key_indices + num_keys;
  for (const Mask& mask : masks) {
    if (!sameForAllQueries(mask)) continue;
    const Index first = firstEntry(mask, n, h, 0);
    end = std::remove_if(key_indices, end, [&](Index j) { return forbids(mask, first + j * mask.strides[3]); });
  }
  if (end != key_indices + num_keys) selected_ = {key_indices, static_cast<Index>(end - key_indices)};
}

Range KeySelection::visibleTo(Index i) const {
  const Range range = causalAndWindow(options_.query_offset + i, num_keys_, options_);
  return {selected_.before(range.begin), selected_.before(range.end)};
}

VisibleKeys::VisibleKeys(const KeySelection& selection, Index first, Index num_queries, Arena& arena)
    : selection_(selection),
      first_(first),
      rows_(num_queries),
      candidates_{selection.visibleTo(first).begin / 8 * 8, selection.visibleTo(first + num_queries - 1).end} {
  loadMasks(arena);
  findRanges(arena);
  for (const Range& range : ranges_) count_ += range.count();
}

void VisibleKeys::loadMasks(Arena& arena) {
  const std::span<const Mask> masks = selection_.masks();
  auto* loaded = arena.take<BlockMask>(static_cast<Index>(masks.size()));
  size_t count = 0;
  for (const Mask& mask : masks) {
    const bool same = sameForAllQueries(mask);
    if (mask.kind == Mask::Kind::kBoolean && same) continue;  // the keys that it forbids are not selected
    BlockMask& block = loaded[count++];
    block = {.hides_panels = !same, .added = {}};
    for (Index r = 0; r < rows_; ++r) {
      block.added[static_cast<size_t>(r)] =
          r > 0 && same ? block.added[0]
                        : maskRow(mask, firstEntry(mask, selection_.sequence(), selection_.head(), first_ + r), arena);
    }
  }
  masks_ = {loaded, count};
}

const float* VisibleKeys::maskRow(const Mask& mask, Index first, Arena& arena) const {
  const RowList& selected = selection_.selected();
  const Index stride = mask.strides[3];
  const bool boolean = mask.kind == Mask::Kind::kBoolean;
  const auto* added = static_cast<const float*>(mask.data) + (boolean ? 0 : first);
  if (!boolean && stride == 1 && !selected.indices) return added + candidates_.begin;
  float* entries = arena.take(candidates_.count());
  for (Index k = candidates_.begin; k < candidates_.end; ++k) {
    const Index at = selected[k] * stride;
    entries[k - candidates_.begin] = !boolean ? added[at] : forbids(mask, first + at) ? kForbidden : 0;
  }
  return entries;
}

void VisibleKeys::findRanges(Arena& arena) {
  auto* ranges = arena.take<Range>(candidates_.count() / 16 + 1);
  if (std::ranges::none_of(masks_, &BlockMask::hides_panels)) {
    ranges[0] = candidates_;
    ranges_ = {ranges, 1};
    return;
  }
  size_t count = 0;
  for (Index first = candidates_.begin; first < candidates_.end; first += 8) {
    const Range panel{first, std::min(first + 8, candidates_.end)};
    if (std::ranges::any_of(masks_, [&](const BlockMask& mask) { return hidesPanel(mask, panel); })) continue;
    if (count > 0 && ranges[count - 1].end == first) {
      ranges[count - 1].end = panel.end;
    } else {
      ranges[count++] = panel;
    }
  }
  ranges_ = {ranges, count};
}

bool VisibleKeys::hidesPanel(const BlockMask& mask, const Range& panel) const {
  if (!mask.hides_panels) return false;
  const Index first = panel.begin - candidates_.begin;
  for (size_t r = 0; r < static_cast<size_t>(rows_); ++r) {
    if (!allForbidden(mask.added[r] + first, panel.count())) return false;
  }
  return true;
}

void VisibleKeys::addBiasAndMasks(Index r, float* scores, bool adds_bias) const {
  const auto row = static_cast<size_t>(r);
  const Range own = selection_.visibleTo(first_ + r);
  const AttentionOptions& options = selection_.options();
  for (const Range& range : ranges_) {
    const Range part{std::clamp(own.begin, range.begin, range.end), std::clamp(own.end, range.begin, range.end)};
    scores = std::fill_n(scores, part.begin - range.begin, kForbidden);
    if (adds_bias && options.bias) {
      const Index position = options.query_offset + first_ + r, max_distance = options.bias.cols() / 2;
      const float* bias = options.bias.data() + selection_.head() * options.bias.cols() + max_distance;
      for (Index k = part.begin; k < part.end; ++k)
        scores[k - part.begin] += bias[std::clamp(selection_.selected()[k] - position, -max_distance, max_distance)];
    }
    const Index first = part.begin - candidates_.begin;
    for (const BlockMask& mask : masks_) applyMask(mask.added[row] + first, part.count(), scores);
    scores = std::fill_n(scores + part.count(), range.end - part.end, kForbidden);
  }
}

std::span<const Range> VisibleKeys::allowed(const float* scores, float forbidden, Arena& arena) const {
  auto* ranges = arena.take<Range>(count_ / 2 + 1);
  size_t count = 0;
  for (const Range& range : ranges_) {
    for (Index k = range.begin; k < range.end; ++k) {
      if (*scores++ == forbidden) continue;
      if (count == 0 || ranges[count - 1].end != k) ranges[count++] = {k, k};
      ++ranges[count - 1].end;
    }
  }
  return {ranges, count};
}

void VisibleKeys::compactRow(std::span<const Range> allowed, float* row) const {
  const float* from = row;
  auto next = allowed.begin();
  for (const Range& range : ranges_) {
    for (; next != allowed.end() && next->end <= range.end; ++next)
      row = std::copy_n(from + (next->begin - range.begin), next->count(), row);
    from += range.count();
  }
}

}  // namespace heed
