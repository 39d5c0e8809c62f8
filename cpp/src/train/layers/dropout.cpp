#include "heed/dropout.h"

#include "heed/train/layers.h"

namespace heed::train {

Variable dropout(Graph& graph, Dropout& layer, const Variable& x) {
  if (!layer.active()) return x;
  return dropout(graph, x, layer.options().p, layer.options().scaling, layer.nextKey());
}

}  // namespace heed::train
