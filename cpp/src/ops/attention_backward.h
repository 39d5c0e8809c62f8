#pragma once

#include "train/ops/attention.h"

namespace heed::train {

/// One recorded call of attention. `options` refers to the other members, so that an object stays where it was made.
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
  /// Position of the factor on head h of sequence n in the head mask.
  Index headMaskIndex(Index n, Index h) const { return (options.head_mask.rows() > 1 ? n * num_heads : 0) + h; }
  float headMask(Index n, Index h) const {
    return options.head_mask ? options.head_mask.data()[headMaskIndex(n, h)] : 1;
  }

  AttentionVariables variables;
  Sequences queries, keys;
  Index num_heads, key_heads;
  RandomState random;  // dropout draws for the same sequences in both passes
  std::vector<MaskTensor> mask_tensors;
  DisentangledPositions positions;
  AttentionOptions options;
};

/// Where attentionBackward() writes.
struct AttentionGradients {
  MatrixView query, key, value;  ///< overwritten
  float* head_mask;              ///< null, or added to; the same for the following
  float* position_bias;
  float* position_key;
  float* position_query;
  std::vector<float*> masks;  ///< one for each mask

  bool sharedByHeads() const;
};

/// The gradient of a node, to add to; null if it needs none.
float* gradientOf(const Variable& variable, Backward& pass);

/// recordAttention() where kScores or kWeights are touched.
Variable recordTouchedAttention(Graph& graph, const std::shared_ptr<const AttentionCall>& call, RecordedSites& sites,
                                float* weights);

/// Computes the gradients from that of the output (sum L_n, H Dv). Keys and values that several heads of queries share
/// get the sum of those heads' gradients.
void attentionBackward(const AttentionCall& call, ConstMatrixView gradient, const AttentionGradients& result,
                       Context& context);

}  // namespace heed::train
