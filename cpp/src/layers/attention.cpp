#include "heed/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/softmax.h"

namespace heed {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

/// Keys [begin, end) that query i may see by causality and the window.
struct KeyRange {
  Index begin, end;
};

KeyRange visible(Index i, Index num_keys, const AttentionOptions& options) {
  const Index position = options.query_offset + i;
  KeyRange range{0, num_keys};
  if (options.causal) range.end = std::min(range.end, position + 1);
  if (options.window) {
    range.begin = std::max<Index>(range.begin, position - *options.window);
    range.end = std::min(range.end, position + *options.window + 1);
  }
  range.begin = std::min(range.begin, range.end);
  return range;
}

/// Adds mask row (n, h, i) to scores of keys [range).
void applyMask(const Mask& mask, Index n, Index h, Index i, KeyRange range, float* scores) {
  const Index base = n * mask.strides[0] + h * mask.strides[1] + i * mask.strides[2];
  for (Index j = range.begin; j < range.end; ++j) {
    const Index at = base + j * mask.strides[3];
    if (mask.kind == Mask::Kind::kBoolean) {
      if (!static_cast<const uint8_t*>(mask.data)[at]) scores[j] = kForbidden;
    } else {
      scores[j] += static_cast<const float*>(mask.data)[at];
    }
  }
}

}  // namespace

Mask Mask::broadcast(const char* argument, Kind kind, const void* data, const Shape& shape, const std::array<Index, 4>& target) {
  Mask mask{kind, data, {0, 0, 0, 0}};
  bool fits = shape.rank() <= 4;
  Index stride = 1;
  for (Index axis = 3; fits && axis >= 4 - shape.rank(); --axis) {
    const Index extent = shape[axis - 4 + shape.rank()];
    fits = extent == 1 || extent == target[static_cast<size_t>(axis)];
    mask.strides[static_cast<size_t>(axis)] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  if (!fits) {
    throw Error(ErrorCode::kShapeMismatch, std::string(argument) + ": got shape " + shape.toString() + "; expected one that broadcasts to " +
                                               Shape{target[0], target[1], target[2], target[3]}.toString());
  }
  return mask;
}

DistanceBias alibiBias(Index num_heads, Index max_distance) {
  DistanceBias bias{max_distance, {}};
  const auto slopes = [](Index heads) {
    std::vector<float> s;
    for (Index h = 1; h <= heads; ++h) s.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads))));
    return s;
  };
  Index power = 1;
  while (2 * power <= num_heads) power *= 2;
  std::vector<float> all = slopes(power);
  const std::vector<float> finer = slopes(2 * power);
  for (Index h = 0; power + h < num_heads; ++h) all.push_back(finer[static_cast<size_t>(2 * h)]);
  for (const float slope : all) {
    for (Index d = -max_distance; d <= max_distance; ++d) bias.values.push_back(-slope * static_cast<float>(std::abs(d)));
  }
  return bias;
}

DistanceBias relativeBias(ConstMatrixView table, Index max_length, Index bucket_distance, bool bidirectional) {
  const Index heads = table.cols();
  const Index side = bidirectional ? table.rows() / 2 : table.rows();
  const Index exact = side / 2;
  const auto bucket = [&](Index distance) {  // distance = j - i
    Index offset = 0, n = -distance;
    if (bidirectional) {
      if (n < 0) offset = side;
      n = std::abs(n);
    } else {
      n = std::max<Index>(n, 0);
    }
    if (n < exact) return offset + n;
    const float log_ratio = std::log(static_cast<float>(n) / static_cast<float>(exact)) /
                            std::log(static_cast<float>(bucket_distance) / static_cast<float>(exact));
    return offset + std::min<Index>(side - 1, exact + static_cast<Index>(log_ratio * static_cast<float>(side - exact)));
  };
  DistanceBias bias{max_length, {}};
  for (Index h = 0; h < heads; ++h) {
    for (Index d = -max_length; d <= max_length; ++d) bias.values.push_back(table(bucket(d), h));
  }
  return bias;
}

Index attentionWeightsSize(Index num_heads, const Sequences& queries, const Sequences& keys) {
  Index size = 0;
  for (Index n = 0; n < queries.count(); ++n) size += num_heads * queries.length(n) * keys.length(n);
  return size;
}

void attention(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, Index num_heads, const Sequences& queries,
               const Sequences& keys, const AttentionOptions& options, MatrixView output, float* weights, Arena& arena) {
  const Arena::Scope scope(arena);
  const Index key_width = query.cols() / num_heads, value_width = value.cols() / num_heads;
  const float scale = options.scale.value_or(1 / std::sqrt(static_cast<float>(key_width)));
  float* scores = arena.take<float>(keys.maxLength());

  for (Index n = 0; n < queries.count(); ++n) {
    const Index num_keys = keys.length(n);
    for (Index h = 0; h < num_heads; ++h) {
      const auto k = key.block(keys.begin(n), h * key_width, num_keys, key_width);
      const auto v = value.block(keys.begin(n), h * value_width, num_keys, value_width);
      float head_scale = 1;
      if (!options.head_scale.empty()) {
        const bool per_sequence = static_cast<Index>(options.head_scale.size()) != num_heads;
        head_scale = options.head_scale[static_cast<size_t>((per_sequence ? n * num_heads : 0) + h)];
      }
      for (Index i = 0; i < queries.length(n); ++i) {
        const KeyRange range = visible(i, num_keys, options);
        const Index count = range.end - range.begin;
        const auto q = query.block(queries.begin(n) + i, h * key_width, 1, key_width);
        Eigen::Map<Eigen::RowVectorXf> row(scores + range.begin, count);
        row.noalias() = scale * (q * k.middleRows(range.begin, count).transpose());
        if (options.bias) {
          const Index limit = options.bias->max_distance;
          const float* values = options.bias->values.data() + h * (2 * limit + 1) + limit;
          for (Index j = range.begin; j < range.end; ++j) scores[j] += values[std::clamp(j - i - options.query_offset, -limit, limit)];
        }
        for (const Mask& mask : options.masks) applyMask(mask, n, h, i, range, scores);
        softmaxRow(scores + range.begin, count);
        if (weights) {
          std::fill_n(weights, num_keys, 0.0f);
          std::copy(scores + range.begin, scores + range.end, weights + range.begin);
          weights += num_keys;
        }
        if (options.dropout > 0) {
          for (Index j = range.begin; j < range.end; ++j) scores[j] = options.generator->uniform() < options.dropout ? 0 : scores[j] / (1 - options.dropout);
        }
        output.block(queries.begin(n) + i, h * value_width, 1, value_width).noalias() = head_scale * (row * v.middleRows(range.begin, count));
      }
    }
  }
}

}  // namespace heed
