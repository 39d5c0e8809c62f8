#pragma once

#include "../call.h"
#include "graph.h"
#include "heed/train/recording_evaluator.h"

namespace heed::bindings {

/// Reads a mask: null or undefined, a RawMask of bytes, or the handle of an additive mask. The evaluator keeps the
/// mask's data alive.
std::optional<MaskTensor> readMask(train::RecordingEvaluator& e, const char* argument, const val& mask);

/// Implements Call::attention() for variables.
Value recordAttention(train::RecordingEvaluator& e, const BatchedAttention& attention, const Argument& query,
                      const Argument& key, const Argument& value, AttentionOptions options,
                      std::optional<MaskTensor> mask, float* weights);

}  // namespace heed::bindings
