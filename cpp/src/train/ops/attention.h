#pragma once

#include <memory>
#include <vector>

#include "heed/attention.h"
#include "heed/train/graph.h"
#include "heed/train/sites.h"

namespace heed::train {

/// The variables of one call of attention. Except for query, key and value, they are empty where the matrix is not
/// recorded and needs no gradient.
struct AttentionVariables {
  Variable query, key, value;
  Variable head_mask, bias, position_key, position_query;
  std::vector<Variable> masks;                      ///< of additive masks: one for each mask, a row of its elements
  std::vector<std::shared_ptr<const void>> shared;  ///< what must live until the backward pass
};

/// Scaled dot-product attention of all heads; see heed/attention.h for shapes and options. `weights` is null or is
/// filled as there. Keeps q, k and v and nothing of size L x S: the backward pass computes the softmax again, by blocks
/// of queries.
///
/// With P = softmax(Q K^T scale + M), O = P V and D = rowsum(dO * O): dV = P^T dO, dP = dO V^T, dS = P * (dP - D),
/// dQ = scale dS K, dK = scale dS^T Q, dM = dS (Dao et al. 2022, arXiv:2205.14135, appendix B.4). The gradient of a
/// mask adds up along the axes that repeat. Forbidden keys and their values have gradients of exactly 0, and so has a
/// query whose keys are all forbidden.
///
/// `sites`: null unless kScores or kWeights are touched. Scores and weights are then operations of their own, which are
/// kept; the results have the same bits where nothing is edited.
Variable recordAttention(Graph& graph, AttentionVariables variables, const Sequences& queries, const Sequences& keys,
                         Index num_heads, const AttentionOptions& options, float* weights,
                         RecordedSites* sites = nullptr);

}  // namespace heed::train
