#pragma once

#include <span>

#include "heed/attention.h"
#include "heed/context.h"

/// Attention in steps, whose scores and weights may be edited in between (sites kScores and kWeights). Scores and
/// weights are (H, L_n, S_n) for each sequence n, one sequence after the other. heed::attention() has computed output
/// and weights before; only rows that an edit has changed are computed again, so that the others have the same bits.
namespace heed {

/// Computes the input of the softmax before masks.
void attentionScores(const AttentionInput& input, Index num_heads, const AttentionOptions& options, float* scores,
                     Context& context);
/// Recomputes the weights of each row whose `scores` differ from `before`: the softmax of the masked scores.
void softmaxEditedRows(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                       const float* before, const float* scores, float* weights);
/// Recomputes the output of each row whose `weights` differ from `before`.
void attendEditedRows(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                      const float* before, const float* weights, MatrixView output, const RandomState& random);

/// Calls f(n, h, i, offset) for each row of scores: query i of head h of sequence n, whose scores begin at `offset`.
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
