#include "heed/train/ops.h"

namespace heed::train {

Variable activate(Graph& graph, const Variable& x, Activation activation) {
  (void)activation;
  (void)graph;
  return x;
}

}  // namespace heed::train
