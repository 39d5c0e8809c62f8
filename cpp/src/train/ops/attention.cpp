/// Y = m (Z * P) V with P = softmax(Q K^T scale + M), the dropout factors Z and the head mask m. For the gradients, see
/// ops/attention_backward.cpp. Only the inputs are saved; the backward pass recomputes P.
#include "train/ops/attention.h"

#include "core/check.h"
#include "ops/attention_backward.h"

namespace heed::train {

float* gradientOf(const Variable& variable, Backward& pass) {
  float* gradient = nullptr;
  pass.add(variable.node(), [&](MatrixView out, const ConstMatrixView* before) {
    if (!before) out.setZero();
    gradient = out.data();
  });
  return gradient;
}

AttentionCall::AttentionCall(AttentionVariables&& given, const Sequences& query_rows, const Sequences& key_rows,
                             Index heads, const AttentionOptions& settings, const RandomState& state)
    : variables(std::move(given)),
      queries(query_rows),
      keys(key_rows),
      num_heads(heads),
      key_heads(settings.keyHeads(heads)),
      random(state),
      mask_tensors(settings.masks.begin(), settings.masks.end()),
      options(settings) {
  options.masks = mask_tensors;
  if (options.positions) {
    positions = *options.positions;
    options.positions = &positions;
  }
}

Variable recordAttention(Graph& graph, AttentionVariables variables, const Sequences& queries, const Sequences& keys,
                         Index num_heads, const AttentionOptions& options, float* weights, RecordedSites* sites) {
  requireRange("queryOffset", options.query_offset, 0, 0);  // decoding with a cache is not recorded
  auto call =
      std::make_shared<AttentionCall>(std::move(variables), queries, keys, num_heads, options, graph.context().random);
  if (sites) return recordEditedAttention(graph, call, *sites, weights);
  const AttentionVariables& v = call->variables;
  Matrix output(v.query.rows(), call->valueWidth() * num_heads);
  heed::attention(call->input(), num_heads, call->options, {output.view(), weights}, graph.context());
  std::vector<Variable> inputs = {v.query, v.key, v.value, v.head_mask, v.bias, v.position_key, v.position_query};
  inputs.insert(inputs.end(), v.masks.begin(), v.masks.end());
  return graph.record(std::move(output), inputs, false, [call](Matrix& gradient, Backward& pass) {
    const AttentionVariables& of = call->variables;
    Matrix dq(of.query.rows(), of.query.cols()), dk(of.key.rows(), of.key.cols()), dv(of.value.rows(), of.value.cols());
    AttentionGradients result{dq.view(),
                              dk.view(),
                              dv.view(),
                              gradientOf(of.head_mask, pass),
                              gradientOf(of.bias, pass),
                              gradientOf(of.position_key, pass),
                              gradientOf(of.position_query, pass),
                              {}};
    for (const Variable& mask : of.masks) result.masks.push_back(gradientOf(mask, pass));
    attentionBackward(*call, gradient.values(), result, pass.context());
    pass.give(of.query.node(), std::move(dq));
    pass.give(of.key.node(), std::move(dk));
    pass.give(of.value.node(), std::move(dv));
  });
}

}  // namespace heed::train
