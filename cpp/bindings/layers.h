#pragma once

#include "heed/encoder.h"
#include "module.h"

/// The layers as classes of JavaScript. Each reads its options, runs the core's layer and writes its results; no
/// arithmetic of its own.
namespace heed::bindings {

/// What a class registers as its constructor.
template <class T>
T* make(const val& options) {
  return guarded([&] { return new T(options); });
}

/// RawAttended: { output, weights }.
val writeAttended(const val& output, const val& weights);

/// What an encoder computed, in the arena; the weights of each layer [N, H, L, L], or none.
struct EncoderRun {
  MatrixView output;
  std::vector<std::pair<Shape, float*>> weights;
};
EncoderRun runEncoder(Encoder& encoder, const Batch& x, const val& options, RotaryOption& rotary);
/// The list of these weights, null where they were not asked for.
val writeWeights(const EncoderRun& run);

}  // namespace heed::bindings
