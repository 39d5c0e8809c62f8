#pragma once

#include <emscripten/bind.h>

#include "call.h"
#include "heed/encoder.h"
#include "module.h"

/// The layers as JavaScript classes. Each class reads its options; its run() maps the arguments of a Call to results,
/// in inference and in training. These classes only map arguments.
namespace heed::bindings {

/// Implements RawLayer.
class BoundLayer : public BoundModule {
 public:
  /// Runs the layer. Returns one result, or an object of results by name.
  virtual val run(Call& call) = 0;
  /// Runs the layer in inference. `arguments`: an object of RawTensors, RawMasks and options.
  val forward(const val& arguments);
};

/// The constructor of a registered class.
template <class T>
T* make(const val& options) {
  return guarded([&] { return new T(options); });
}
/// Registers a class whose constructor takes an object of options.
template <class T, class Base = BoundLayer>
emscripten::class_<T, emscripten::base<Base>> registerLayer(const char* name) {
  return emscripten::class_<T, emscripten::base<Base>>(name).constructor(&make<T>, emscripten::allow_raw_pointers());
}

/// A batch [N, L, E] or one sequence [L, E].
struct Batch {
  Value rows;
  Sequences sequences;
  Index count, length;
  bool batched;

  Batch(const Value& rows, Index count, Index length, bool batched)
      : rows(rows), sequences(Sequences::uniform(count, length)), count(count), length(length), batched(batched) {}
  /// [N, L, width] or [L, width].
  Shape shape(Index width) const { return batched ? Shape{count, length, width} : Shape{length, width}; }
  /// [N, H, L, S] or [H, L, S].
  Shape weightsShape(Index heads, Index keys) const {
    return batched ? Shape{count, heads, length, keys} : Shape{heads, length, keys};
  }
};
/// Throws kShapeMismatch naming `argument` unless x is [N, L, width] or [L, width].
Batch batchOf(const char* argument, const TensorArgument& x, Index width);
/// batchOf() for the argument with that name.
Batch readBatch(Call& call, const char* argument, Index width);
/// Requires `batch` and `other`, the argument `name`, to have the same number of sequences and to be both batched or
/// both unbatched.
void requireSameCount(const char* argument, const Batch& batch, const Batch& other, const char* name = "query");

/// The attention options of one call, and the masks to which they refer.
class AttentionCall {
 public:
  /// Reads the arguments named `mask`, which broadcasts to the weights, and `key_mask` [N, S].
  AttentionCall(Call& call, const char* mask, const char* key_mask);
  AttentionCall(const AttentionCall&) = delete;
  AttentionCall& operator=(const AttentionCall&) = delete;

  AttentionOptions options;

 private:
  std::vector<MaskTensor> masks_;
};

/// The options of one call of an encoder, and the memory for its attention weights.
class EncoderCall : public AttentionCall {
 public:
  EncoderCall(Call& call, Encoder& encoder, const Batch& x, RotaryOption& rotary, const char* key_mask);
  /// The weights as a JavaScript array, or null if they were not requested.
  val writeWeights() const;

  std::vector<float*> weights;  ///< [N, H, L, L] per layer, or empty if they were not requested

 private:
  std::vector<Shape> shapes_;  // of `weights`
};

/// Read the options of layers, and those of a model's layers. Options that are absent keep their value in the second
/// argument.
void readFeedForward(const val& options, FeedForwardOptions& feed_forward);
EncoderLayerOptions readEncoderLayer(const val& options, EncoderLayerOptions layer = {.embed_dim = 0});

}  // namespace heed::bindings
