#pragma once

#include "heed/train/ops.h"

namespace heed::train {

/// Throws kUnsupported for a layer whose weights are not fp32.
void requireTrainable(const Linear& layer);

/// Records Z = X W^T + b, without the layer's phi, for a Z that was computed together with other products of X.
Variable recordLinear(Graph& graph, const Linear& layer, const Variable& x, Matrix z);

}  // namespace heed::train
