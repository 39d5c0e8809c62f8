#include "heed/multi_head_attention.h"

#include <array>

#include "core/check.h"
#include "gemm/gemm.h"
#include "heed/train/layers.h"
#include "train/ops/linear.h"

namespace heed::train {
namespace {

/// q, k and v of one input, which is packed once for the three products.
std::array<Variable, 3> projectSelf(Graph& graph, const MultiHeadAttention& layer, const Variable& x) {
  const std::array projections = {&layer.queryProjection(), &layer.keyProjection(), &layer.valueProjection()};
  std::array<Matrix, 3> values;
  std::vector<Product> products;
  for (size_t i = 0; i < 3; ++i) {
    const Linear& projection = *projections[i];
    requireTrainable(projection);
    values[i] = Matrix(x.rows(), projection.options().out_features);
    products.push_back({&projection.weight(), {.bias = projection.bias()}, values[i].view()});
  }
  matmul(x.value(), products, graph.context());
  std::array<Variable, 3> projected;
  for (size_t i = 0; i < 3; ++i) {
    projected[i] = activate(graph, recordLinear(graph, *projections[i], x, std::move(values[i])),
                            projections[i]->options().activation);
  }
  return projected;
}

std::array<Variable, 3> project(Graph& graph, const MultiHeadAttention& layer, const Variable& query,
                                const Variable& key, const Variable& value) {
  const auto same = [](const Variable& a, const Variable& b) {
    return a.shared() == b.shared() && a.node() == b.node();
  };
  if (same(query, key) && same(key, value)) return projectSelf(graph, layer, query);
  return {linear(graph, layer.queryProjection(), query), linear(graph, layer.keyProjection(), key),
          linear(graph, layer.valueProjection(), value)};
}

}  // namespace

Variable multiHeadAttention(Graph& graph, MultiHeadAttention& layer, const Variable& query, const Variable& key,
                            const Variable& value, const Sequences& queries, const Sequences& keys,
                            const LayerSettings& settings, float* weights) {
  const MultiHeadAttentionOptions& o = layer.options();
  requireShape("query", query.value(), queries.totalRows(), o.embed_dim);
  requireShape("key", key.value(), keys.totalRows(), o.key_input_dim);
  requireShape("value", value.value(), keys.totalRows(), o.value_input_dim);
  auto [q, k, v] = project(graph, layer, query, key, value);
  if (layer.queryNorm()) q = normalizeHeads(graph, *layer.queryNorm(), q);
  if (layer.keyNorm()) k = normalizeHeads(graph, *layer.keyNorm(), k);
  if (settings.rotary) {
    q = rotate(graph, settings.rotary, q, queries, o.num_heads);
    k = rotate(graph, settings.rotary, k, keys, o.key_value_heads);
  }
  AttentionSettings call = settings;
  call.key_heads = o.key_value_heads;
  if (settings.distance_embeddings) {
    call.positions.key = linear(graph, layer.positionKeyProjection(), settings.distance_embeddings);
    call.positions.query = linear(graph, layer.positionQueryProjection(), settings.distance_embeddings);
  }
  if (layer.dropout().active()) {
    call.dropout = layer.dropout().options().p;
    call.dropout_key = layer.dropout().nextKey();
  }
  const Variable heads = attention(graph, q, k, v, queries, keys, o.num_heads, call, weights);
  return linear(graph, layer.outputProjection(), heads);
}

}  // namespace heed::train
