#include "heed/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "check.h"
#include "gemm/attention_products.h"
#include "heed/dropout.h"
#include "kernels/mask.h"
#include "kernels/softmax.h"

namespace heed {
namespace {

/// Keys that query i may see by causality and the window.
Range visible(Index i, Index num_keys, const AttentionOptions& options) {
  const Index position = options.query_offset + i;
  Range range{0, num_keys};
  if (options.causal) range.end = std::min(range.end, position + 1);
  if (options.window) {
    const Index radius =
        std::min(*options.window, position + num_keys);  // as good as any larger one, and no sum overflows
    range.begin = std::max<Index>(range.begin, position - radius);
    range.end = std::min(range.end, position + radius + 1);
  }
  range.begin = std::min(range.begin, range.end);
  return range;
}

Index total(std::span<const Range> ranges) {
  Index count = 0;
  for (const Range& range : ranges) count += range.count();
  return count;
}

bool sameForAllQueries(const Mask& mask) { return mask.strides[2] == 0; }

/// Whether entry `at` of a mask rules its key out.
bool forbids(const Mask& mask, Index at) {
  if (mask.kind == Mask::Kind::kBoolean) return !static_cast<const uint8_t*>(mask.data)[at];
  return static_cast<const float*>(mask.data)[at] == kForbidden;
}

void check(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, Index num_heads, const Sequences& queries,
           const Sequences& keys, const AttentionOptions& options, ConstMatrixView output) {
  requireAtLeast("numHeads", num_heads, 1);
  const auto require_heads = [num_heads](const char* argument, Index width) {
    if (width % num_heads != 0) {
      refuse(ErrorCode::kShapeMismatch, argument, "width " + std::to_string(width),
             "a multiple of numHeads, " + std::to_string(num_heads));
    }
  };
  require_heads("query", query.cols());
  require_heads("value", value.cols());
  requireShape("query", query, queries.totalRows(), query.cols());
  requireShape("key", key, keys.totalRows(), query.cols());
  requireShape("value", value, keys.totalRows(), value.cols());
  requireShape("output", output, queries.totalRows(), value.cols());
  if (keys.count() != queries.count()) {
    refuse(ErrorCode::kShapeMismatch, "key", std::to_string(keys.count()) + " sequences",
           std::to_string(queries.count()) + ", as many as queries");
  }
  if (options.scale && !std::isfinite(*options.scale))
    refuse(ErrorCode::kInvalidArgument, "scale", numberText(*options.scale), "a finite number");
  if (options.window) requireAtLeast("window", *options.window, 0);
  requireAtLeast("queryOffset", options.query_offset, 0);
  // Sums of positions, distances and window radii stay within Index.
  constexpr Index kMostPositions = std::numeric_limits<Index>::max() / 4;
  if (options.query_offset > kMostPositions - queries.maxLength() || keys.maxLength() > kMostPositions) {
    refuse(ErrorCode::kInvalidArgument, "queryOffset", std::to_string(options.query_offset),
           "positions up to " + std::to_string(kMostPositions));
  }
  if (options.bias)
    requireShape("bias", {static_cast<Index>(options.bias->values.size())},
                 {num_heads * (2 * options.bias->max_distance + 1)});
  const auto factors = static_cast<Index>(options.head_scale.size());
  if (factors != 0 && factors != num_heads && factors != queries.count() * num_heads) {
    requireShape("headMask", {factors}, {queries.count(), num_heads});
  }
  requireRate("dropout", options.dropout);
}

}  // namespace

Index attentionWeightsSize(Index num_heads, const Sequences& queries, const Sequences& keys) {
  Index size = 0;
  for (Index n = 0; n < queries.count(); ++n) size += Shape{num_heads, queries.length(n), keys.length(n)}.size();
  return size;
}

namespace {

/// Attention of one head in one sequence: query, output (L, ..), key, value (S, ..) are its columns and rows.
///
/// Work that masks forbid is left out in three steps. Keys that no query may see, such as padding, are not packed; what
/// follows counts the keys that are left. A strip of queries passes by the panels of 8 keys that none of its queries
/// may see. Within a panel forbidden keys are computed and get the weight zero; where a value is not finite, so that
/// zero times it would not vanish, each query is multiplied with what it may see and no more.
class Head {
 public:
  Head(Index n, Index h, ConstMatrixView key, ConstMatrixView value, const AttentionOptions& options, Arena& arena)
      : n_(n),
        h_(h),
        num_keys_(key.rows()),
        options_(options),
        arena_(arena),
        chosen_(chooseKeys()),
        keys_(packKeys(key, chosen_, arena)),
        values_(packValues(value, chosen_, arena)) {}

  /// A strip of queries, the first of which is query i: a few rows at a time, so that their scores stay in the cache.
  void attend(ConstMatrixView query, Index i, float scale, float factor, MatrixView output, float* weights) const {
    const Arena::Scope scope(arena_);
    const Index rows = query.rows();
    Strip strip{.first = i, .rows = rows, .reach = reachOf(i, rows), .masks = {}, .seen = {}};
    strip.masks = masksOf(strip);
    strip.seen = seenBy(strip);
    const Index count = total(strip.seen);
    MatrixView a = arena_.matrix(rows, (count + 7) / 8 * 8);
    auto* units = arena_.take<uint32_t>(rows * std::max(query.cols(), count));
    const Range features{0, keys_.depth}, columns{0, values_.columns};

    std::array<float, kMaxQueries> factors;
    factors.fill(scale);
    multiplyRowBlock(query, keys_, {&features, 1}, strip.seen, factors.data(), a, units);
    for (Index r = 0; r < rows; ++r) {
      float* row = a.data() + r * a.outerStride();
      forbid(strip, r, row);
      std::fill(row + count, row + a.cols(), kForbidden);
      const uint8_t* allowed = values_.finite ? nullptr : allowedIn(row, count);
      // The division by the sum is left to the product with the values, whose rows are shorter.
      const float sum = exponentials(row, a.cols()), inverse = sum == 0 ? 0 : 1 / sum;
      factors[static_cast<size_t>(r)] = factor * inverse;
      if (weights) showWeights(strip.seen, row, inverse, weights + r * num_keys_);
      if (options_.dropout > 0) dropWeights(strip, r, row);
      if (!values_.finite) {
        const std::span<const Range> exactly = gather(strip.seen, allowed, row);
        multiplyRowBlock(readOnly(view(row, 1, total(exactly))), values_, exactly, {&columns, 1},
                         &factors[static_cast<size_t>(r)],
                         view(output.data() + r * output.outerStride(), 1, output.cols()), units);
      }
    }
    if (values_.finite) {
      multiplyRowBlock(readOnly(view(a.data(), rows, count, a.outerStride())), values_, strip.seen, {&columns, 1},
                       factors.data(), output, units);
    }
  }

 private:
  /// A mask as it stands beside a strip of queries: for each of them a row of entries, one for each key within reach.
  struct StripMask {
    bool skips;  ///< says different things to different queries, and may hide panels from all of the strip
    std::array<const uint8_t*, kMaxQueries> allowed;  ///< one of the two kinds, the other null
    std::array<const float*, kMaxQueries> added;
  };

  struct Strip {
    Index first, rows;                 ///< queries
    Range reach;                       ///< keys that causality and the window show to some query, from a panel's first
    std::span<const StripMask> masks;  ///< those that chooseKeys() has not dealt with
    std::span<const Range> seen;       ///< of the keys within reach the panels that some query may see
  };

  /// The keys that some query may see, as far as the masks that are the same for all queries tell.
  RowList chooseKeys() const {
    RowList all{nullptr, num_keys_};
    if (std::ranges::none_of(options_.masks, sameForAllQueries)) return all;
    auto* places = arena_.take<Index>(num_keys_);
    std::iota(places, places + num_keys_, Index{0});
    Index count = num_keys_;
    for (const Mask& mask : options_.masks) {
      if (!sameForAllQueries(mask)) continue;
      const Index first = firstEntry(mask, 0);
      const auto forbidden = [&](Index j) { return forbids(mask, first + j * mask.strides[3]); };
      count = std::remove_if(places, places + count, forbidden) - places;
    }
    return count == num_keys_ ? all : RowList{places, count};
  }

  /// Where a mask's entries for query i begin.
  Index firstEntry(const Mask& mask, Index i) const {
    return n_ * mask.strides[0] + h_ * mask.strides[1] + i * mask.strides[2];
  }

  /// The chosen keys among those that query i may see by causality and the window.
  Range chosenFor(Index i) const {
    const Range range = visible(i, num_keys_, options_);
    return {chosen_.before(range.begin), chosen_.before(range.end)};
  }

  Range reachOf(Index first, Index rows) const {
    return {chosenFor(first).begin / 8 * 8, chosenFor(first + rows - 1).end};
  }

  std::span<const StripMask> masksOf(const Strip& strip) const {
    auto* masks = arena_.take<StripMask>(static_cast<Index>(options_.masks.size()));
    size_t count = 0;
    for (const Mask& mask : options_.masks) {
      const bool boolean = mask.kind == Mask::Kind::kBoolean, same = sameForAllQueries(mask);
      if (boolean && same) continue;
      StripMask& placed = masks[count++];
      placed = {.skips = !same, .allowed = {}, .added = {}};
      for (Index r = 0; r < strip.rows; ++r) {
        const auto at = static_cast<size_t>(r);
        const Index first = firstEntry(mask, strip.first + r), stride = mask.strides[3];
        if (boolean) {
          placed.allowed[at] = entries(static_cast<const uint8_t*>(mask.data) + first, stride, strip.reach);
        } else if (r > 0 && same) {
          placed.added[at] = placed.added[0];
        } else {
          placed.added[at] = entries(static_cast<const float*>(mask.data) + first, stride, strip.reach);
        }
      }
    }
    return {masks, count};
  }

  /// A mask's entries for the keys within reach, one after the other.
  template <class T>
  const T* entries(const T* first, Index stride, const Range& reach) const {
    if (stride == 1 && !chosen_.indices) return first + reach.begin;
    T* row = arena_.take<T>(reach.count());
    for (Index k = reach.begin; k < reach.end; ++k) row[k - reach.begin] = first[chosen_[k] * stride];
    return row;
  }

  std::span<const Range> seenBy(const Strip& strip) const {
    const Range& reach = strip.reach;
    auto* ranges = arena_.take<Range>(reach.count() / 16 + 1);
    if (std::ranges::none_of(strip.masks, &StripMask::skips)) {
      ranges[0] = reach;
      return {ranges, 1};
    }
    size_t count = 0;
    for (Index first = reach.begin; first < reach.end; first += 8) {
      const Range panel{first, std::min(first + 8, reach.end)};
      const auto hides = [&](const StripMask& mask) { return hidesAll(mask, strip, panel); };
      if (std::ranges::any_of(strip.masks, hides)) continue;
      if (count > 0 && ranges[count - 1].end == first) {
        ranges[count - 1].end = panel.end;
      } else {
        ranges[count++] = panel;
      }
    }
    return {ranges, count};
  }

  /// Whether a mask hides a panel from all queries of the strip.
  static bool hidesAll(const StripMask& mask, const Strip& strip, const Range& panel) {
    if (!mask.skips) return false;
    const Index first = panel.begin - strip.reach.begin;
    for (size_t r = 0; r < static_cast<size_t>(strip.rows); ++r) {
      const bool hidden = mask.added[0] ? allForbidden(mask.added[r] + first, panel.count())
                                        : allForbidden(mask.allowed[r] + first, panel.count());
      if (!hidden) return false;
    }
    return true;
  }

  /// Adds bias and masks to the scores of the strip's query r, and makes them -infinity where it may not see the key.
  void forbid(const Strip& strip, Index r, float* scores) const {
    const auto row = static_cast<size_t>(r);
    const Range own = chosenFor(strip.first + r);
    for (const Range& range : strip.seen) {
      const Range part{std::clamp(own.begin, range.begin, range.end), std::clamp(own.end, range.begin, range.end)};
      scores = std::fill_n(scores, part.begin - range.begin, kForbidden);
      if (options_.bias) addBias(*options_.bias, strip.first + r + options_.query_offset, part, scores);
      const Index first = part.begin - strip.reach.begin;
      for (const StripMask& mask : strip.masks) {
        if (mask.added[0]) {
          applyMask(mask.added[row] + first, part.count(), scores);
        } else {
          applyMask(mask.allowed[row] + first, part.count(), scores);
        }
      }
      scores = std::fill_n(scores + part.count(), range.end - part.end, kForbidden);
    }
  }

  void addBias(const DistanceBias& bias, Index position, const Range& keys, float* scores) const {
    const float* middle = bias.values.data() + h_ * (2 * bias.max_distance + 1) + bias.max_distance;
    for (Index k = keys.begin; k < keys.end; ++k)
      *scores++ += middle[std::clamp(chosen_[k] - position, -bias.max_distance, bias.max_distance)];
  }

  void showWeights(std::span<const Range> seen, const float* row, float factor, float* weights) const {
    std::fill_n(weights, num_keys_, 0.0f);
    for (const Range& range : seen) {
      for (Index k = range.begin; k < range.end; ++k) weights[chosen_[k]] = factor * *row++;
    }
  }

  /// Dropout on the weights of the strip's query r, whose columns are the keys as they were before any was skipped.
  void dropWeights(const Strip& strip, Index r, float* weights) const {
    const float scale = keptScale(options_.dropout, DropoutScaling::kInverted);
    DropoutRow draws(options_.dropout_key, options_.first_sequence + n_, h_, options_.query_offset + strip.first + r);
    for (const Range& range : strip.seen) {
      for (Index k = range.begin; k < range.end; ++k, ++weights)
        *weights = draws.drops(chosen_[k], options_.dropout) ? 0 : *weights * scale;
    }
  }

  /// Which of a query's scores, its masks applied, belong to keys that it may see.
  const uint8_t* allowedIn(const float* scores, Index count) const {
    auto* allowed = arena_.take<uint8_t>(count);
    std::transform(scores, scores + count, allowed, [](float score) { return score != kForbidden; });
    return allowed;
  }

  /// Moves the weights of the allowed keys to the front of their row, and tells which keys these are.
  std::span<const Range> gather(std::span<const Range> seen, const uint8_t* allowed, float* row) const {
    auto* ranges = arena_.take<Range>(total(seen) / 2 + 1);
    size_t count = 0;
    const float* weight = row;
    for (const Range& range : seen) {
      for (Index k = range.begin; k < range.end; ++k, ++weight) {
        if (!*allowed++) continue;
        *row++ = *weight;
        if (count == 0 || ranges[count - 1].end != k) ranges[count++] = {k, k};
        ++ranges[count - 1].end;
      }
    }
    return {ranges, count};
  }

  Index n_, h_, num_keys_;
  const AttentionOptions& options_;
  Arena& arena_;
  RowList chosen_;
  Panels keys_, values_;
};

}  // namespace

void attention(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, Index num_heads,
               const Sequences& queries, const Sequences& keys, const AttentionOptions& options, MatrixView output,
               float* weights, Arena& arena) {
  check(query, key, value, num_heads, queries, keys, options, readOnly(output));
  const Index key_width = query.cols() / num_heads, value_width = value.cols() / num_heads;
  const float scale = options.scale.value_or(1 / std::sqrt(static_cast<float>(key_width)));
  const bool factor_per_sequence = static_cast<Index>(options.head_scale.size()) != num_heads;
  // Rows [begin, end) of one head's columns; of no rows, which may lie nowhere, no address is formed.
  const auto part = [](auto all, Index begin, Index end, Index h, Index width) {
    const Index offset = begin < end ? begin * all.outerStride() + h * width : 0;
    return view(all.data() + offset, end - begin, width, all.outerStride());
  };

  for (Index n = 0; n < queries.count(); ++n) {
    const Index num_keys = keys.length(n), first = queries.begin(n), length = queries.length(n);
    if (length == 0) continue;
    const Index strips = queryBlocks(length);
    for (Index h = 0; h < num_heads; ++h) {
      const Arena::Scope scope(arena);
      const Head head(n, h, part(key, keys.begin(n), keys.end(n), h, key_width),
                      part(value, keys.begin(n), keys.end(n), h, value_width), options, arena);
      const float factor = options.head_scale.empty()
                               ? 1
                               : options.head_scale[static_cast<size_t>((factor_per_sequence ? n * num_heads : 0) + h)];
      for (Index s = 0; s < strips; ++s) {
        const Index begin = evenPart(length, strips, s), end = evenPart(length, strips, s + 1);
        head.attend(part(query, first + begin, first + end, h, key_width), begin, scale, factor,
                    part(output, first + begin, first + end, h, value_width),
                    weights ? weights + begin * num_keys : nullptr);
      }
      if (weights) weights += length * num_keys;
    }
  }
}

}  // namespace heed
