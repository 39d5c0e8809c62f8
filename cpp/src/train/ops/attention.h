#pragma once

#include <memory>
#include <vector>

#include "heed/attention.h"
#include "heed/train/backward.h"
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
/// queries at a time.
///
/// With P = softmax(Q K^T scale + M), O = P V and D = rowsum(dO * O): dV = P^T dO, dP = dO V^T, dS = P * (dP - D),
/// dQ = scale dS K, dK = scale dS^T Q, dM = dS (Dao et al. 2022, arXiv:2205.14135, appendix B.4). The gradient of a
/// mask is summed over the axes along which it repeats. Forbidden keys, their values, and queries whose keys are all
/// forbidden have gradients of exactly 0.
///
/// `sites`: null unless kScores or kWeights are read or edited. Scores and weights are then recorded as separate
/// operations, whose results are saved. Results that no edit changes have the same bits.
Variable recordAttention(Graph& graph, AttentionVariables variables, const Sequences& queries, const Sequences& keys,
                         Index num_heads, const AttentionOptions& options, float* weights,
                         RecordedSites* sites = nullptr);

}  // namespace heed::train
