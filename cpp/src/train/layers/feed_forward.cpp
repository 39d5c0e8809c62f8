#include "heed/feed_forward.h"

#include "heed/train/layers.h"

namespace heed::train {

Variable feedForward(Graph& graph, FeedForward& layer, const Variable& x) {
  Variable hidden = linear(graph, layer.linear1(), x);
  if (layer.options().gated) hidden = gate(graph, hidden, layer.options().activation, layer.options().gate_second);
  return linear(graph, layer.linear2(), dropout(graph, layer.dropout(), hidden));
}

}  // namespace heed::train
