#pragma once

#include "graph.h"
#include "heed/train/recording_evaluator.h"

/// Shared by the attention of functions and layers.
namespace heed::bindings {

/// The tables of a rotary option for `length` positions from `first`; null if the option is null. Those of the last few
/// options are kept between calls. Graphs share them, so that they outlive their replacement.
std::shared_ptr<const Rotary> rotaryTables(const val& option, Index head_dim, Index length, Index first = 0);

/// Reads a mask: null, a RawMask of bytes, or the handle of an additive mask. The evaluator keeps its data.
std::optional<MaskTensor> readMask(BoundGraph& graph, train::RecordingEvaluator& e, const char* argument,
                                   const val& mask);

/// A batch [N, L, width] or one sequence [L, width].
Batch batchOf(train::RecordingEvaluator& e, const char* argument, const BoundVariable& x, Index width);

}  // namespace heed::bindings
