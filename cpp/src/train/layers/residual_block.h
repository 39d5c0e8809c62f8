#pragma once

#include "heed/train/layers.h"

namespace heed::train {

/// A block f with residual connection, norm and dropout, as in inference (layers/residual_block.h). `norm` may be null.
template <class Block>
Variable residualBlock(Graph& graph, const LayerNorm* norm, bool norm_first, Dropout& dropout_layer, const Variable& x,
                       const Block& block) {
  const auto normed = [&](const Variable& v) { return norm ? layerNorm(graph, *norm, v) : v; };
  const auto dropped = [&](const Variable& v) { return dropout(graph, dropout_layer, v); };
  if (norm_first) return add(graph, x, dropped(block(normed(x))));
  return normed(add(graph, x, dropped(block(x))));
}

}  // namespace heed::train
