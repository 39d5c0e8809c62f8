#pragma once

#include <emscripten/bind.h>

#include "heed/encoder.h"
#include "module.h"

/// The layers as JavaScript classes. Each reads its options, runs a layer of the core and converts its results; there
/// is no arithmetic here.
namespace heed::bindings {

/// The constructor to register for a class.
template <class T>
T* make(const val& options) {
  return guarded([&] { return new T(options); });
}
/// Registers a class whose constructor takes an object of options.
template <class T, class Base = BoundModule>
emscripten::class_<T, emscripten::base<Base>> registerLayer(const char* name) {
  return emscripten::class_<T, emscripten::base<Base>>(name).constructor(&make<T>, emscripten::allow_raw_pointers());
}

/// Results of an encoder in the arena; weights [N, H, L, L] per layer, or none.
struct EncoderRun {
  Value output;
  std::vector<std::pair<Shape, float*>> weights;
};
EncoderRun runEncoder(Encoder& encoder, const Batch& x, const val& options, RotaryOption& rotary);
/// The weights as a JavaScript array, or null if they were not requested.
val writeWeights(const EncoderRun& run);

}  // namespace heed::bindings
