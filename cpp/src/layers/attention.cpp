#include "heed/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check.h"
#include "heed/dropout.h"
#include "kernels/attention.h"
#include "kernels/softmax.h"

namespace heed {
namespace {

/// Keys [begin, end) that a query may see by causality and the window; the others are never looked at.
struct KeyRange {
  Index begin, end;
  Index count() const { return end - begin; }
};

KeyRange visible(Index i, Index num_keys, const AttentionOptions& options) {
  const Index position = options.query_offset + i;
  KeyRange range{0, num_keys};
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

/// The row of one query's scores, scores[0] being key range.begin's, with what the masks and the bias add.
struct ScoreRow {
  Index n, h, i;
  KeyRange range;
  float* scores;

  void add(const DistanceBias& bias, Index query_offset) const {
    const float* middle = bias.values.data() + h * (2 * bias.max_distance + 1) + bias.max_distance;
    for (Index j = range.begin; j < range.end; ++j) {
      scores[j - range.begin] += middle[std::clamp(j - i - query_offset, -bias.max_distance, bias.max_distance)];
    }
  }

  void apply(const Mask& mask) const {
    const Index first = n * mask.strides[0] + h * mask.strides[1] + i * mask.strides[2];
    for (Index j = range.begin; j < range.end; ++j) {
      const Index at = first + j * mask.strides[3];
      if (mask.kind == Mask::Kind::kAdditive) {
        scores[j - range.begin] += static_cast<const float*>(mask.data)[at];
      } else if (!static_cast<const uint8_t*>(mask.data)[at]) {
        scores[j - range.begin] = -std::numeric_limits<float>::infinity();
      }
    }
  }
};

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
class Head {
 public:
  Head(Index n, Index h, ConstMatrixView key, ConstMatrixView value, const AttentionOptions& options, Arena& arena)
      : n_(n),
        h_(h),
        num_keys_(key.rows()),
        options_(options),
        keys_(packKeys(key, arena)),
        values_(packValues(value, arena)),
        arena_(arena) {}

  /// A strip of queries, the first of which is query i: a few rows at a time, so that their scores stay in the cache.
  void attend(ConstMatrixView query, Index i, float scale, float factor, MatrixView output, float* weights) const {
    const Arena::Scope scope(arena_);
    const Index rows = query.rows();
    const Index begin = visible(i, num_keys_, options_).begin / 8 * 8,
                end = visible(i + rows - 1, num_keys_, options_).end;
    const Index count = std::max<Index>(end - begin, 0);
    MatrixView a = arena_.matrix(rows, count);
    uint32_t* units = arena_.take<uint32_t>(rows * std::max(query.cols(), count));
    bool any[kMostStripQueries];

    multiplyStrip(query, keys_, 0, begin, scale, a, units);
    for (Index r = 0; r < rows; ++r)
      any[r] = turnIntoWeights(i + r, begin, end, a.data() + r * a.outerStride(),
                               weights ? weights + r * num_keys_ : nullptr);
    multiplyStrip(readOnly(a), values_, begin, 0, factor, output, units);
    for (Index r = 0; r < rows; ++r) {
      if (!any[r]) output.row(r).setZero();
    }
  }

 private:
  /// The scores of query i with keys [begin, end) -> softmax and dropout of what it may see, zeros elsewhere. False
  /// where it may see nothing.
  bool turnIntoWeights(Index i, Index begin, Index end, float* scores, float* weights) const {
    const KeyRange range = visible(i, num_keys_, options_);
    const ScoreRow row{n_, h_, i, range, scores + range.begin - begin};
    if (options_.bias) row.add(*options_.bias, options_.query_offset);
    for (const Mask& mask : options_.masks) row.apply(mask);
    const bool any = softmaxRow(row.scores, range.count());
    std::fill(scores, row.scores, 0.0f);
    std::fill(row.scores + range.count(), scores + end - begin, 0.0f);
    if (weights) {
      std::fill_n(weights, num_keys_, 0.0f);
      std::copy_n(row.scores, range.count(), weights + range.begin);
    }
    if (options_.dropout > 0) {
      const MatrixView kept = view(row.scores, 1, range.count());
      dropout(readOnly(kept), options_.dropout, DropoutScaling::kInverted, *options_.generator, kept);
    }
    return any;
  }

  Index n_, h_, num_keys_;
  const AttentionOptions& options_;
  Panels keys_, values_;
  Arena& arena_;
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
    const Index strips = queryStrips(length);
    for (Index h = 0; h < num_heads; ++h) {
      const Arena::Scope scope(arena);
      const Head head(n, h, part(key, keys.begin(n), keys.end(n), h, key_width),
                      part(value, keys.begin(n), keys.end(n), h, value_width), options, arena);
      const float factor = options.head_scale.empty()
                               ? 1
                               : options.head_scale[static_cast<size_t>((factor_per_sequence ? n * num_heads : 0) + h)];
      for (Index s = 0; s < strips; ++s) {
        const Index begin = s * length / strips, end = (s + 1) * length / strips;
        head.attend(part(query, first + begin, first + end, h, key_width), begin, scale, factor,
                    part(output, first + begin, first + end, h, value_width),
                    weights ? weights + begin * num_keys : nullptr);
      }
      if (weights) weights += length * num_keys;
    }
  }
}

}  // namespace heed
