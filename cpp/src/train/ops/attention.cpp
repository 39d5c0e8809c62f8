/// Y = m (Z * P) V with P = softmax(Q K^T scale + M), the dropout factors Z and the head mask m. For the gradients see
/// attention_backward.cpp. Only the inputs are kept: P is computed again.
#include "ops/broadcast.h"
#include "train/ops/attention_backward.h"

namespace heed::train {
namespace {

MaskTensor asTensor(const AttentionMask& mask) {
  if (mask.added) return {mask.argument, Mask::Kind::kAdditive, mask.added.value().data(), mask.shape, mask.per_key};
  return {mask.argument, Mask::Kind::kBoolean, mask.allowed->data(), mask.shape, mask.per_key};
}

/// The gradient of a node, to add to; null if it needs none.
float* gradientOf(const std::shared_ptr<Node>& node, Backward& pass) {
  float* gradient = nullptr;
  pass.add(node, [&](MatrixView out, const ConstMatrixView* before) {
    if (!before) out.setZero();
    gradient = out.data();
  });
  return gradient;
}

}  // namespace

AttentionCall::AttentionCall(const Variable& q, const Variable& k, const Variable& v, const Sequences& query_rows,
                             const Sequences& key_rows, Index heads, const AttentionSettings& given,
                             const RandomState& state)
    : query(q),
      key(k),
      value(v),
      queries(query_rows),
      keys(key_rows),
      num_heads(heads),
      key_heads(given.key_heads == 0 ? heads : given.key_heads),
      settings(given),
      random(state) {
  options.scale = settings.scale;
  options.causal = settings.causal;
  options.window = settings.window;
  options.key_heads = settings.key_heads;
  options.dropout = settings.dropout;
  options.dropout_key = settings.dropout_key;
  std::vector<MaskTensor> tensors;
  tensors.reserve(settings.masks.size());
  for (const AttentionMask& mask : settings.masks) tensors.push_back(asTensor(mask));
  masks = broadcastMasks(tensors, {queries.count(), num_heads, queries.maxLength(), keys.maxLength()});
  options.masks = masks;
  if (const Variable& factors = settings.head_mask)
    options.head_mask = {factors.value().data(), static_cast<size_t>(factors.value().size())};
  if (const Variable& added = settings.position_bias) {
    const float* values = added.value().data();
    bias = {.max_distance = (added.cols() - 1) / 2, .values{values, values + added.value().size()}};
    options.bias = &bias;
  }
  if (const auto& [position_key, position_query, rows] = settings.positions; rows) {
    positions.emplace(DisentangledPositions{.key = position_key.value(),
                                            .query = position_query.value(),
                                            .max_distance = static_cast<Index>(rows->size()) / 2,
                                            .rows = rows->data()});
    options.positions = &*positions;
  }
}

Variable attention(Graph& graph, const Variable& query, const Variable& key, const Variable& value,
                   const Sequences& queries, const Sequences& keys, Index num_heads, const AttentionSettings& settings,
                   float* weights) {
  auto call = std::make_shared<const AttentionCall>(query, key, value, queries, keys, num_heads, settings,
                                                    graph.context().random);
  Matrix output(query.rows(), call->valueWidth() * num_heads);
  heed::attention(call->input(), num_heads, call->options, {output.view(), weights}, graph.context());
  const RelativePositions& positions = settings.positions;
  std::vector<Variable> inputs = {query,          key, value, settings.head_mask, settings.position_bias, positions.key,
                                  positions.query};
  for (const AttentionMask& mask : settings.masks) inputs.push_back(mask.added);
  return graph.record(std::move(output), inputs, false, [call](Matrix& gradient, Backward& pass) {
    Matrix dq(call->query.rows(), call->query.cols()), dk(call->key.rows(), call->key.cols()),
        dv(call->value.rows(), call->value.cols());
    AttentionGradients result{dq.view(),
                              dk.view(),
                              dv.view(),
                              gradientOf(call->settings.head_mask.node(), pass),
                              gradientOf(call->settings.position_bias.node(), pass),
                              gradientOf(call->settings.positions.key.node(), pass),
                              gradientOf(call->settings.positions.query.node(), pass),
                              {}};
    for (const AttentionMask& mask : call->settings.masks) result.masks.push_back(gradientOf(mask.added.node(), pass));
    attentionBackward(*call, gradient.values(), result, pass.context());
    pass.give(call->query.node(), std::move(dq));
    pass.give(call->key.node(), std::move(dk));
    pass.give(call->value.node(), std::move(dv));
  });
}

}  // namespace heed::train
