#pragma once

#include <emscripten/val.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/arena.h"
#include "heed/attention.h"
#include "heed/dropout.h"
#include "heed/encoder.h"
#include "heed/positional_encoding.h"
#include "heed/tensor.h"

/// Between JavaScript's plain objects and the core's types. Inputs are copied into the arena, results into arrays that
/// JavaScript owns; a view of the memory lives for one copy only, since the next allocation may move what it shows.
namespace heed::bindings {

using emscripten::val;

/// The module's context: WebAssembly here is one thread.
Context& context();
inline Arena& arena() { return context().arena; }

/// Throws the JavaScript HeedError class that the TypeScript API gave to the module.
[[noreturn]] void raise(const char* code, const std::string& message);

/// Runs `body(argument)` within an arena scope; what the core throws leaves as a HeedError.
void runGuarded(void (*body)(void*), void* argument);

/// The same for any callable. Only a thunk is instantiated for each: the handlers exist once.
template <class Body>
auto guarded(Body body) {
  using Result = decltype(body());
  if constexpr (std::is_void_v<Result>) {
    runGuarded([](void* called) { (*static_cast<Body*>(called))(); }, &body);
  } else {
    struct Call {
      Body& body;
      std::optional<Result> result;
    } call{body, std::nullopt};
    runGuarded(
        [](void* called) {
          auto& [inner, result] = *static_cast<Call*>(called);
          result.emplace(inner());
        },
        &call);
    return *std::move(call.result);
  }
}

/// A tensor in the arena.
struct Input {
  Shape shape;
  float* data;

  /// All axes but the last as rows.
  ConstMatrixView matrix() const { return view(static_cast<const float*>(data), shape.rows(), shape[-1]); }
};

Shape readShape(const val& array);
Input readTensor(const val& tensor);
std::optional<Input> readOptionalTensor(const val& tensor);
val writeTensor(const Shape& shape, const float* data);
val writeFloats(const float* data, Index count);

Index readIndex(const val& object, const char* key);
float readFloat(const val& object, const char* key);
bool readBool(const val& object, const char* key);
std::string readString(const val& object, const char* key);
uint64_t readSeed(const val& seed);
std::optional<Index> readWindow(const val& options);
Activation readActivation(const val& options);
DropoutScaling readScaling(const val& options);

/// A RawMask called `argument`, its data in the arena; nothing where it is null.
std::optional<MaskTensor> readMask(const char* argument, const val& mask);
/// `options[mask]` and `options[key_mask]`, those of them that are given; the latter is [N, S].
std::vector<MaskTensor> readMasks(const val& options, const char* mask, const char* key_mask);
/// causal and window of RawLayerAttentionOptions.
MultiHeadCallOptions readCallOptions(const val& options);
/// headMask, of shape [H] or [N, H]; empty where it is null.
std::span<const float> readHeadMask(const val& options, Index num_sequences, Index num_heads);

/// A batch [N, L, E] or one sequence [L, E].
struct Batch {
  ConstMatrixView rows;
  Sequences sequences;
  Index count, length;
  bool batched;

  /// The input's shape with another width.
  Shape shape(Index width) const { return batched ? Shape{count, length, width} : Shape{length, width}; }
  /// [N, H, L, S] or [H, L, S].
  Shape weightsShape(Index heads, Index keys) const {
    return batched ? Shape{count, heads, length, keys} : Shape{heads, length, keys};
  }
};
/// Throws kShapeMismatch naming `argument` unless the tensor is [N, L, width] or [L, width].
Batch readBatch(const char* argument, const val& tensor, Index width);

/// `batch` has as many sequences as `other`, which the caller knows as `name`, and both are batched or neither is.
void requireSameCount(const char* argument, const Batch& batch, const Batch& other, const char* name = "query");

MultiHeadAttentionOptions readAttentionLayerOptions(const val& options);
EncoderLayerOptions readEncoderLayerOptions(const val& options);

/// A layer's rotary option: tables are made when the first call shows how long texts are, and again when one is longer.
class RotaryOption {
 public:
  RotaryOption(const val& options, Index head_dim);
  /// For `length` positions from `first`; null where the option is null.
  const Rotary* tables(Index length, Index first = 0);

 private:
  bool given_ = false;
  Index dim_ = 0;
  double base_ = 10000;
  Rotary::Pairing pairing_ = Rotary::Pairing::kHalfSplit;
  std::optional<Rotary> tables_;
};
Rotary::Pairing readPairing(const val& options);

}  // namespace heed::bindings
