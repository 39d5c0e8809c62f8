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

/// Conversions between JavaScript's plain objects and the core's types. Inputs are copied into the arena, results into
/// arrays that JavaScript owns. A view of WebAssembly memory is used for one copy only, because growing the memory
/// invalidates it.
/// Notation: N sequences, L queries, S keys, H heads, E width.
namespace heed::bindings {

using emscripten::val;

/// The context of the module's calls, which come from one thread.
Context& context();
inline Arena& arena() { return context().arena; }

/// Throws a JavaScript HeedError, whose class the TypeScript API sets on the module.
[[noreturn]] void raise(const char* code, const std::string& message);

/// Calls `body(argument)` within an arena scope and rethrows C++ exceptions as HeedErrors.
void runGuarded(void (*body)(void*), void* argument);

/// The same for any callable, with its result. Only a small thunk is instantiated per type, not the exception handlers.
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

/// A tensor whose data is in the arena.
struct Input {
  Shape shape;
  float* data;

  /// The tensor as a matrix whose columns are its last axis.
  MatrixView matrix() const { return view(data, shape.rows(), shape[-1]); }
};

Shape readShape(const val& array);
Input readTensor(const val& tensor);
std::optional<Input> readOptionalTensor(const val& tensor);
val writeTensor(const Shape& shape, const float* data);
val writeFloats(const float* data, Index count);
val writeShape(const Shape& shape);
/// RawAttended: { output, weights }.
val writeAttended(const val& output, const val& weights);

Index readIndex(const val& object, const char* key);
float readFloat(const val& object, const char* key);
bool readBool(const val& object, const char* key);
std::string readString(const val& object, const char* key);
uint64_t readSeed(const val& seed);
std::optional<Index> readWindow(const val& options);
Activation readActivation(const val& options, const char* key = "activation");
DropoutScaling readScaling(const val& options);

/// Reads a RawMask with its data in the arena; nothing if it is null. `argument` is its name for errors.
std::optional<MaskTensor> readMask(const char* argument, const val& mask);
/// Reads `options[mask]` and `options[key_mask]`, if they are given; the latter has the shape [N, S].
std::vector<MaskTensor> readMasks(const val& options, const char* mask, const char* key_mask);
/// Reads causal and window of RawLayerAttentionOptions.
AttentionOptions readCallOptions(const val& options);
/// Reads headMask, [H] or [N, H]; empty if it is null.
Value readHeadMask(const val& options, Index num_sequences, Index num_heads);

/// A batch [N, L, E] or one sequence [L, E].
struct Batch {
  Value rows;
  Sequences sequences;
  Index count, length;
  bool batched;

  Batch(const Value& rows, Index count, Index length, bool batched)
      : rows(rows), sequences(Sequences::uniform(count, length)), count(count), length(length), batched(batched) {}
  /// A batch of the same shape.
  Batch with(const Value& other) const { return {other, count, length, batched}; }
  /// [N, L, width] or [L, width].
  Shape shape(Index width) const { return batched ? Shape{count, length, width} : Shape{length, width}; }
  /// [N, H, L, S] or [H, L, S].
  Shape weightsShape(Index heads, Index keys) const {
    return batched ? Shape{count, heads, length, keys} : Shape{heads, length, keys};
  }
};
/// Throws kShapeMismatch naming `argument` unless the tensor is [N, L, width] or [L, width].
Batch readBatch(const char* argument, const val& tensor, Index width);

/// Requires `batch` and `other`, the argument `name`, to have the same number of sequences and to be both batched or
/// both unbatched.
void requireSameCount(const char* argument, const Batch& batch, const Batch& other, const char* name = "query");

MultiHeadAttentionOptions readAttentionLayerOptions(const val& options);
EncoderLayerOptions readEncoderLayerOptions(const val& options);

/// The rotary option of a layer. Its tables are computed on the first call and recomputed for longer sequences.
class RotaryOption {
 public:
  RotaryOption(const val& options, Index head_dim);
  /// Tables for `length` positions from `first`; null if the option is null.
  const Rotary* tables(Index length, Index first = 0);
  /// New tables, as tables() makes them.
  Rotary make(Index length, Index first) const;
  bool given() const { return given_; }
  /// Whether both make the same tables.
  bool operator==(const RotaryOption& other) const {
    return dim_ == other.dim_ && base_ == other.base_ && pairing_ == other.pairing_;
  }

 private:
  bool given_ = false;
  Index dim_ = 0;
  double base_ = 10000;
  Rotary::Pairing pairing_ = Rotary::Pairing::kHalfSplit;
  std::optional<Rotary> tables_;
};

}  // namespace heed::bindings
