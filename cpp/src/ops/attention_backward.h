#pragma once

#include <memory>
#include <vector>

#include "heed/attention.h"
#include "heed/train/graph.h"
#include "heed/train/sites.h"

namespace heed::train {

/// The variables of one call of attention. All except query, key and value are empty if they need no gradient.
struct AttentionVariables {
  Variable query, key, value;
  Variable head_mask, bias, position_key, position_query;
  std::vector<Variable> masks;                      ///< one per mask: the elements of an additive mask as a row
  std::vector<std::shared_ptr<const void>> shared;  ///< owners of data that must live until the backward pass
};

/// Scaled dot-product attention of all heads; see heed/attention.h for shapes and options. `weights` is null or is
/// filled as there. Saves q, k and v and nothing of size L x S: the backward pass recomputes the softmax, one block of
/// queries at a time. Forbidden keys, their values, and queries whose keys are all forbidden have gradients of exactly
/// 0. The gradient of a mask is summed over the axes along which it repeats.
///
/// `sites`: null unless kScores or kWeights are read or edited. Scores and weights are then recorded as separate
/// operations, whose results are saved. Results that no edit changes have the same bits.
Variable recordAttention(Graph& graph, AttentionVariables variables, const Sequences& queries, const Sequences& keys,
                         Index num_heads, const AttentionOptions& options, float* weights,
                         RecordedSites* sites = nullptr);

/// One recorded call of attention. Not movable, because `options` refers to other members.
struct AttentionCall {
  AttentionCall(AttentionVariables&& variables, const Sequences& queries, const Sequences& keys, Index num_heads,
                const AttentionOptions& options, const RandomState& random);
  AttentionCall(const AttentionCall&) = delete;
  AttentionCall& operator=(const AttentionCall&) = delete;

  AttentionInput input() const {
    const auto matrix = [](const Variable& v) { return Value::constant(v.value()); };
    return {matrix(variables.query), matrix(variables.key), matrix(variables.value), queries, keys};
  }
  Index keyWidth() const { return variables.query.cols() / num_heads; }
  Index valueWidth() const { return variables.value.cols() / key_heads; }
  /// The number of scores of all heads and sequences.
  double scoreCount() const;

  AttentionVariables variables;
  Sequences queries, keys;
  Index num_heads, key_heads;
  RandomState random;  // of the forward pass, so that the backward pass repeats its dropout draws
  std::vector<MaskTensor> mask_tensors;
  DisentangledPositions positions;
  AttentionOptions options;
};

/// recordAttention() with `sites`.
Variable recordEditedAttention(Graph& graph, const std::shared_ptr<const AttentionCall>& call, RecordedSites& sites,
                               float* weights);

}  // namespace heed::train
