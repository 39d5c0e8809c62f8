#pragma once

#include <emscripten/val.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/activation.h"
#include "heed/arena.h"
#include "heed/attention.h"
#include "heed/dropout.h"
#include "heed/module.h"
#include "heed/positional_encoding.h"
#include "heed/tensor.h"

/// Conversions between plain JavaScript objects and C++ types. Inputs are copied into the arena, results into arrays
/// that JavaScript owns. A view of WebAssembly memory is used for one copy only, because growing the memory invalidates
/// it.
namespace heed::bindings {

using emscripten::val;

/// The context of all calls from JavaScript, which come from one thread.
Context& context();
inline Arena& arena() { return context().arena; }

/// Throws a JavaScript HeedError. The TypeScript API sets this class on the module.
[[noreturn]] void raise(const char* code, const std::string& message);

/// Calls `body(argument)` within an arena scope and rethrows C++ exceptions as HeedErrors.
void runGuarded(void (*body)(void*), void* argument);

/// runGuarded() for any callable; returns its result. Only a small thunk is instantiated per type, not the exception
/// handlers.
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

/// Marks a module as running within a scope. A callback during the call, such as the map of an edit, may call the
/// module, but must not change it.
class RunScope {
 public:
  explicit RunScope(const Module& module);
  ~RunScope();
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;
  static bool runs(const Module& module);

 private:
  friend void abandonCalls();
  static inline std::vector<const Module*> running;  // the innermost call last
};

/// Resets the record of calls in progress. Call it after a trap, which ends calls without running destructors.
void abandonCalls();

/// A tensor whose data is in the arena.
struct Input {
  Shape shape;
  float* data;

  /// The tensor as a matrix whose columns are its last axis.
  MatrixView matrix() const { return view(data, shape.rows(), shape.columns()); }
};

Shape readShape(const val& array);
/// The data of RawIndices { data, shape }. Requires their number to match the shape.
std::vector<int32_t> readIndices(const char* argument, const val& indices);
Input readTensor(const val& tensor);
std::optional<Input> readOptionalTensor(const val& tensor);
val writeTensor(const Shape& shape, const float* data);
val writeFloats(const float* data, Index count);
val writeShape(const Shape& shape);

/// Copies a typed array of T into the arena; empty if it is null.
template <class T>
std::span<T> readArray(const val& array) {
  if (array.isNull()) return {};
  const auto count = static_cast<Index>(array["length"].as<double>());
  T* data = arena().take<T>(count);
  val(emscripten::typed_memory_view(static_cast<size_t>(count), data)).call<void>("set", array);
  return {data, static_cast<size_t>(count)};
}

/// Copies a typed array of T into a vector, for data that outlive the call.
template <class T>
std::vector<T> readVector(const val& array) {
  const std::span<T> data = readArray<T>(array);
  return {data.begin(), data.end()};
}
/// RawAttended: { output, weights }.
val writeAttended(const val& output, const val& weights);

Index readIndex(const val& object, const char* key);
float readFloat(const val& object, const char* key);
bool readBool(const val& object, const char* key);
std::string readString(const val& object, const char* key);
uint64_t readSeed(const val& seed);
std::optional<Index> readWindow(const val& options);
Activation readActivation(const val& options, const char* key = "activation");
DropoutOptions readDropoutOptions(const val& options);

/// Sets each field to the number or flag with its name; options that are absent keep their value.
template <class T>
void readFields(const val& options, std::initializer_list<std::pair<T*, const char*>> fields) {
  for (const auto& [field, key] : fields) {
    if (const val value = options[key]; !value.isUndefined()) *field = static_cast<T>(value.as<double>());
  }
}

/// Reads a RawMask and copies its data into the arena; nothing if it is null. `argument`: its name in errors.
std::optional<MaskTensor> readMask(const char* argument, const val& mask);
/// `shape` with last axis `width`.
Shape withWidth(const Shape& shape, Index width);

/// The fields of a rotary option.
struct RotaryFields {
  Index dim;
  double base;
  Rotary::Pairing pairing;
};
/// `head_dim`: the width of a head, and the default of the option's dim.
RotaryFields readRotary(const val& options, Index head_dim);

/// The rotary option of a layer. Its tables are computed on the first call and recomputed for longer sequences.
class RotaryOption {
 public:
  RotaryOption(const val& options, Index head_dim);
  /// Tables for `length` positions; null if the option is null. A longer sequence replaces the tables, so callers must
  /// pass them to Call::share().
  std::shared_ptr<const Rotary> tables(Index length) { return rotary_ ? rotary_->tables(length) : nullptr; }

 private:
  std::optional<GrowingRotary> rotary_;
};

}  // namespace heed::bindings
