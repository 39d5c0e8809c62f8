#pragma once

#include "graph.h"
#include "heed/train/layers.h"

/// Shared by the attention of functions and layers.
namespace heed::bindings {

/// The tables of a rotary option for positions below `length`, kept between calls; null if the option is null. Graphs
/// share them, so that they outlive their replacement by longer ones.
std::shared_ptr<const Rotary> rotaryTables(const val& option, Index head_dim, Index length);

/// Reads a mask: null, a RawMask of bytes, or the handle of an additive mask.
std::optional<train::AttentionMask> readAttentionMask(BoundGraph& graph, const char* argument, const val& mask);

/// A batch [N, L, width] or one sequence [L, width].
Batch batchOf(const char* argument, const BoundVariable& x, Index width);

}  // namespace heed::bindings
