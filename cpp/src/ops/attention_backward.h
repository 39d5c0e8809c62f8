#pragma once

#include "train/ops/attention.h"

namespace heed::train {

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

  AttentionVariables variables;
  Sequences queries, keys;
  Index num_heads, key_heads;
  RandomState random;  // of the forward pass, so that the backward pass repeats its dropout draws
  std::vector<MaskTensor> mask_tensors;
  DisentangledPositions positions;
  AttentionOptions options;
};

/// The output of attentionBackward(). query, key and value are overwritten; the others are added to unless null.
struct AttentionGradients {
  MatrixView query, key, value;
  float* head_mask;
  float* position_bias;
  float* position_key;
  float* position_query;
  std::vector<float*> masks;  ///< one for each mask

  /// Whether several heads add to the same gradient.
  bool sharedByHeads() const;
};

/// The number of scores of all heads and sequences.
double scoreCount(const AttentionCall& call);

/// The gradient of a variable, for adding to it; null if it needs none.
float* gradientOf(const Variable& variable, Backward& pass);

/// recordAttention() for calls whose kScores or kWeights are read or edited, see edited_attention.h.
Variable recordEditedAttention(Graph& graph, const std::shared_ptr<const AttentionCall>& call, RecordedSites& sites,
                               float* weights);

/// Computes the gradients of a call from `gradient`, that of its output (sum L_n, H Dv). Keys and values that several
/// query heads share get the sum of these heads' gradients.
void attentionBackward(const AttentionCall& call, ConstMatrixView gradient, const AttentionGradients& result,
                       Context& context);

}  // namespace heed::train
