#pragma once

#include "heed/encoder.h"
#include "module.h"

/// The layers as classes of JavaScript. Each reads its options, runs the core's layer and writes what came of it; no
/// arithmetic of its own.
namespace heed::bindings {

/// What a class registers as its constructor.
template <class T>
T* make(const val& options) {
  return guarded([&] { return new T(options); });
}

/// RawAttended and its likes.
val attended(const val& output, const val& weights);

/// Width of one head's queries and keys.
Index headWidth(const EncoderLayerOptions& options);

/// What came of an encoder, in the arena; weights of each layer [N, H, L, L], or none.
struct EncoderRun {
  MatrixView output;
  std::vector<std::pair<Shape, const float*>> weights;
};
EncoderRun runEncoder(Encoder& encoder, const Batch& x, const val& options, RotaryOption& rotary);
/// The list of these weights, null where they were not asked for.
val writeWeights(const EncoderRun& run);

}  // namespace heed::bindings
