#pragma once

#include <span>

#include "heed/attention.h"
#include "heed/context.h"

/// The steps of attention whose results kScores and kWeights edit. Scores and weights are (H, L_n, S_n) of each
/// sequence n, one after the other.
namespace heed {

/// What the softmax is computed from, before masks.
void attentionScores(const AttentionInput& input, Index num_heads, const AttentionOptions& options, float* scores,
                     Context& context);
/// Sets the weights of each row of scores that has changed to the softmax of the new scores, masked.
void weigh(const AttentionInput& input, Index num_heads, const AttentionOptions& options, const float* before,
           const float* scores, float* weights);
/// Computes the output of the rows of weights that have changed.
void combine(const AttentionInput& input, Index num_heads, const AttentionOptions& options, const float* before,
             const float* weights, MatrixView output, const RandomState& random);

/// Calls f(n, h, i, offset) for each row of scores: query i of head h of sequence n, at `offset` of all scores.
template <class F>
void forEachScoreRow(const AttentionInput& input, Index num_heads, const F& f) {
  Index offset = 0;
  for (Index n = 0; n < input.queries.count(); ++n) {
    for (Index h = 0; h < num_heads; ++h) {
      for (Index i = 0; i < input.queries.length(n); ++i, offset += input.keys.length(n)) f(n, h, i, offset);
    }
  }
}

}  // namespace heed
