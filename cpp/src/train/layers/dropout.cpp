#include "heed/dropout.h"

#include "heed/train/layers.h"

namespace heed::train {

Variable dropout(Graph& graph, Dropout& layer, const Variable& x, Index first_column) {
  if (!layer.active()) return x;
  return dropout(graph, x, layer.options().p, layer.options().scaling, layer.nextKey(), first_column);
}

}  // namespace heed::train
