#pragma once

#include "heed/train/layers.h"

namespace heed::train {

/// A block f with residual connection, norms and dropout, as in inference (layers/residual_block.h). Norms may be null.
template <class Block>
Variable residualBlock(Graph& graph, const LayerNorm* norm, const LayerNorm* output_norm, bool norm_first,
                       Dropout& dropout_layer, const Variable& x, const Block& block) {
  const auto normed = [&](const LayerNorm* with, const Variable& v) { return with ? layerNorm(graph, *with, v) : v; };
  const auto added = [&](const Variable& in) {
    return add(graph, x, dropout(graph, dropout_layer, normed(output_norm, block(in))));
  };
  return norm_first ? added(normed(norm, x)) : normed(norm, added(x));
}

}  // namespace heed::train
