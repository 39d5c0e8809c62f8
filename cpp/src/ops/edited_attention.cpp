/// S = Q K^T scale + B; P = softmax(S + M); Y = m (Z * P) V, with relative positions B, masks M, dropout factors Z and
/// head mask m.
#include "ops/edited_attention.h"

#include <cmath>
#include <cstring>

#include "heed/dropout.h"
#include "ops/mask.h"
#include "ops/softmax.h"

namespace heed {
namespace {

bool sameBits(const float* a, const float* b, Index count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

/// Sets the weights of one query to the softmax of its masked scores. `place` is {n, h, i}: sequence, head, query.
void softmaxEditedRow(const float* scores, const AttentionOptions& options, std::span<const Mask> masks,
                      const std::array<Index, 3>& place, Index num_keys, float* weights) {
  const auto& [n, h, i] = place;
  const Index position = options.query_offset + i;
  for (Index j = 0; j < num_keys; ++j) {
    float score = scores[j];
    bool allowed = (!options.causal || j <= position) && (!options.window || std::abs(position - j) <= *options.window);
    for (const Mask& mask : masks) {
      const auto& s = mask.strides;
      const void* entry = mask.at(n * s[0] + h * s[1] + i * s[2] + j * s[3]);
      if (mask.kind == Mask::Kind::kBoolean) {
        allowed = allowed && *static_cast<const uint8_t*>(entry) != 0;
      } else {
        const float added = *static_cast<const float*>(entry);
        allowed = allowed && added != kForbidden;
        score += added;
      }
    }
    weights[j] = allowed ? score : kForbidden;
  }
  softmaxRow(weights, num_keys);
}

}  // namespace

void attentionScores(const AttentionInput& input, Index num_heads, const AttentionOptions& options, float* scores,
                     Context& context) {
  const Arena::Scope scope(context.arena);
  AttentionOptions unmasked = options;
  unmasked.masks = {};
  unmasked.causal = false;
  unmasked.window.reset();
  unmasked.dropout = 0;
  const Index key_heads = options.keyHeads(num_heads);
  const MatrixView ignored = context.arena.matrix(input.query.rows(), input.value.cols() / key_heads * num_heads);
  attention(input, num_heads, unmasked, {ignored, nullptr, scores}, context);
}

void softmaxEditedRows(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                       const float* before, const float* scores, float* weights) {
  const std::vector<Mask> masks = broadcastMasks(options.masks, input.queries, num_heads, input.keys);
  forEachScoreRow(input, num_heads, [&](Index n, Index h, Index i, Index offset) {
    const Index num_keys = input.keys.length(n);
    if (!sameBits(before + offset, scores + offset, num_keys))
      softmaxEditedRow(scores + offset, options, masks, {n, h, i}, num_keys, weights + offset);
  });
}

void attendEditedRows(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                      const float* before, const float* weights, MatrixView output, const RandomState& random) {
  const Index key_heads = options.keyHeads(num_heads), width = input.value.cols() / key_heads;
  forEachScoreRow(input, num_heads, [&](Index n, Index h, Index i, Index offset) {
    const Index num_keys = input.keys.length(n);
    if (sameBits(before + offset, weights + offset, num_keys)) return;
    const float factor = options.headFactor(n, h, num_heads);
    const float keep_factor = options.dropout > 0 ? keptScale(options.dropout, DropoutScaling::kInverted) : 1;
    DropoutRow draws(options.dropout_key, random.first_sequence + n, h, options.query_offset + i);
    float* sum = output.data() + (input.queries.begin(n) + i) * output.outerStride() + h * width;
    std::fill_n(sum, width, 0.0f);
    for (Index j = 0; j < num_keys; ++j) {
      const float weight = weights[offset + j] * keep_factor * factor;
      // Skipped, because zero times an infinite or NaN value of a masked key would be NaN.
      if (weights[offset + j] == 0 || (options.dropout > 0 && draws.drops(j, options.dropout))) continue;
      const ConstMatrixView value = input.value.values();
      const float* row =
          value.data() + (input.keys.begin(n) + j) * value.outerStride() + h * key_heads / num_heads * width;
      for (Index d = 0; d < width; ++d) sum[d] += weight * row[d];
    }
  });
}

}  // namespace heed
