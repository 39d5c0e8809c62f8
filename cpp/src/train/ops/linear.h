#pragma once

#include "heed/train/ops.h"

namespace heed::train {

/// Throws kUnsupported for a layer whose weights are not fp32.
void requireTrainable(const Linear& layer);

/// linear() without the activation.
Variable product(Graph& graph, const Linear& layer, const Variable& x);
/// linear() for several layers; x is packed only once.
std::vector<Variable> linearsOf(Graph& graph, std::span<const Linear* const> layers, const Variable& x);

}  // namespace heed::train
