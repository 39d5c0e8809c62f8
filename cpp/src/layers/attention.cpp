#include "heed/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check.h"
#include "heed/dropout.h"
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
  const auto requireHeads = [num_heads](const char* argument, Index width) {
    if (width % num_heads != 0) {
      refuse(ErrorCode::kShapeMismatch, argument, "width " + std::to_string(width),
             "a multiple of numHeads, " + std::to_string(num_heads));
    }
  };
  requireHeads("query", query.cols());
  requireHeads("value", value.cols());
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

void attention(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, Index num_heads,
               const Sequences& queries, const Sequences& keys, const AttentionOptions& options, MatrixView output,
               float* weights, Arena& arena) {
  check(query, key, value, num_heads, queries, keys, options, readOnly(output));
  const Arena::Scope scope(arena);
  const Index key_width = query.cols() / num_heads, value_width = value.cols() / num_heads;
  const float scale = options.scale.value_or(1 / std::sqrt(static_cast<float>(key_width)));
  const bool scale_per_sequence = static_cast<Index>(options.head_scale.size()) != num_heads;
  float* scores = arena.take<float>(keys.maxLength());

  for (Index n = 0; n < queries.count(); ++n) {
    const Index num_keys = keys.length(n);
    if (num_keys == 0) {
      output.middleRows(queries.begin(n), queries.length(n)).setZero();
      continue;
    }
    for (Index h = 0; h < num_heads; ++h) {
      const auto k = key.block(keys.begin(n), h * key_width, num_keys, key_width);
      const auto v = value.block(keys.begin(n), h * value_width, num_keys, value_width);
      const float head_scale =
          options.head_scale.empty()
              ? 1
              : options.head_scale[static_cast<size_t>((scale_per_sequence ? n * num_heads : 0) + h)];
      for (Index i = 0; i < queries.length(n); ++i) {
        const auto q = query.block(queries.begin(n) + i, h * key_width, 1, key_width);
        auto out = output.block(queries.begin(n) + i, h * value_width, 1, value_width);
        const KeyRange range = visible(i, num_keys, options);
        MatrixView a = view(scores, 1, range.count());

        a.noalias() = scale * q * k.middleRows(range.begin, range.count()).transpose();
        const ScoreRow row{n, h, i, range, scores};
        if (options.bias) row.add(*options.bias, options.query_offset);
        for (const Mask& mask : options.masks) row.apply(mask);
        const bool any = softmaxRow(scores, range.count());
        if (weights) {
          std::fill_n(weights, num_keys, 0.0f);
          std::copy_n(scores, range.count(), weights + range.begin);
          weights += num_keys;
        }
        if (!any) {
          out.setZero();
          continue;
        }
        if (options.dropout > 0)
          dropout(readOnly(a), options.dropout, DropoutScaling::kInverted, *options.generator, a);
        out.noalias() = head_scale * a * v.middleRows(range.begin, range.count());
      }
    }
  }
}

}  // namespace heed
