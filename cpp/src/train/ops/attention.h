#pragma once

#include <memory>
#include <vector>

#include "heed/attention.h"
#include "heed/train/graph.h"
#include "heed/train/sites.h"

namespace heed::train {

/// The variables of one call of attention. All except query, key and value are empty if their matrix is not recorded
/// and needs no gradient.
struct AttentionVariables {
  Variable query, key, value;
  Variable head_mask, bias, position_key, position_query;
  std::vector<Variable> masks;                      ///< one for each mask: the elements of an additive mask as a row
  std::vector<std::shared_ptr<const void>> shared;  ///< what must live until the backward pass
};

/// Scaled dot-product attention of all heads; see heed/attention.h for shapes and options. `weights` is null or is
/// filled as there. Keeps q, k and v and nothing of size L x S: the backward pass computes the softmax again, by blocks
/// of queries.
///
/// With P = softmax(Q K^T scale + M), O = P V and D = rowsum(dO * O): dV = P^T dO, dP = dO V^T, dS = P * (dP - D),
/// dQ = scale dS K, dK = scale dS^T Q, dM = dS (Dao et al. 2022, arXiv:2205.14135, appendix B.4). The gradient of a
/// mask is summed over the axes along which it repeats. Forbidden keys, their values, and queries whose keys are all
/// forbidden have gradients of exactly 0.
///
/// `sites`: null unless kScores or kWeights are touched. Scores and weights are then recorded as separate operations,
/// whose results are kept; results that no edit changes have the same bits.
Variable recordAttention(Graph& graph, AttentionVariables variables, const Sequences& queries, const Sequences& keys,
                         Index num_heads, const AttentionOptions& options, float* weights,
                         RecordedSites* sites = nullptr);

}  // namespace heed::train
