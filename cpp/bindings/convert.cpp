#include "convert.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>
#include <stdexcept>

#include "core/check.h"

/// Replaces libc++abi's function, which would link printf into the module for a message that never occurs here.
extern "C" [[noreturn]] void abort_message(const char*, ...) { __builtin_trap(); }
/// Replaces libc's function, which would link printf into the module. embind uses it only to write the addresses of
/// types in messages about types that are not registered.
extern "C" int siprintf(char* out, const char*, ...) {
  *out = 0;
  return 0;
}

namespace heed::bindings {

Context& context() {
  static Context instance;
  return instance;
}

void raise(const char* code, const std::string& message) {
  val::module_property("HeedError").new_(std::string(code), message).throw_();
  __builtin_unreachable();
}

namespace {

int depth = 0;  // number of nested calls: a JavaScript function that edits activations may call this module again

/// Releases the arena memory that a call took, and restores the random state. At the end of the outermost call, also
/// frees the arena if it is large, so that weights can use the memory.
class CallScope {
 public:
  CallScope() {
    ++depth;
    context().random = {};
  }
  ~CallScope() {
    scope_.reset();
    if (--depth == 0) arena().trim(kKeptBytes);
  }
  /// Frees the arena's memory, unless a call is in progress.
  static void freeArena() {
    if (depth == 0) arena().trim(0);
  }

 private:
  static constexpr size_t kKeptBytes = 64 << 20;
  RandomScope random_{context()};
  std::optional<Arena::Scope> scope_{std::in_place, arena()};
};

}  // namespace

RunScope::RunScope(const Module& module) { running.push_back(&module); }
RunScope::~RunScope() { running.pop_back(); }
bool RunScope::runs(const Module& module) { return std::ranges::find(running, &module) != running.end(); }

void abandonCalls() {
  depth = 0;
  RunScope::running.clear();
}

void runGuarded(void (*body)(void*), void* argument) {
  const char* code = errorCodeName(ErrorCode::kOutOfMemory);
  const char* out_of_memory = "out of memory: an allocation failed";
  std::string message;
  try {
    const CallScope scope;
    body(argument);
    return;
  } catch (const Error& error) {
    try {
      message = error.what();
      code = errorCodeName(error.code());
    } catch (const std::bad_alloc&) {
    }
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // thrown by std::vector for sizes beyond the address space
    out_of_memory = "out of memory: an array exceeds the 4 GB of 32-bit addresses";
  }
  if (message.empty()) {
    CallScope::freeArena();  // makes memory available for the error
    message = out_of_memory;
  }
  raise(code, message);  // outside the handlers, so that the C++ exception is freed before the JavaScript one is thrown
}

Shape readShape(const val& array) {
  std::vector<Index> extents;
  const auto rank = array["length"].as<unsigned>();
  for (unsigned axis = 0; axis < rank; ++axis) extents.push_back(static_cast<Index>(array[axis].as<double>()));
  return Shape(std::move(extents));
}

namespace {

/// The data of a tensor, which must have `count` values.
template <class T>
T* readData(const val& array, Index count) {
  requireCount("data", array["length"].as<double>(), count);
  return readArray<T>(array).data();
}

}  // namespace

std::vector<int32_t> readIndices(const char* argument, const val& indices) {
  std::vector<int32_t> all = readVector<int32_t>(indices["data"]);
  requireCount(argument, all.size(), readShape(indices["shape"]).size());
  return all;
}

Input readTensor(const val& tensor) {
  Shape shape = readShape(tensor["shape"]);
  float* data = readData<float>(tensor["data"], shape.size());
  return {std::move(shape), data};
}

std::optional<Input> readOptionalTensor(const val& tensor) {
  if (tensor.isNull() || tensor.isUndefined()) return std::nullopt;
  return readTensor(tensor);
}

val writeFloats(const float* data, Index count) {
  return val(emscripten::typed_memory_view(static_cast<size_t>(count), data)).call<val>("slice");
}

val writeShape(const Shape& shape) {
  val array = val::array();
  for (const Index extent : shape.extents()) array.call<void>("push", static_cast<double>(extent));
  return array;
}

val writeAttended(const val& output, const val& weights) {
  val result = val::object();
  result.set("output", output);
  result.set("weights", weights);
  return result;
}

val writeTensor(const Shape& shape, const float* data) {
  val tensor = val::object();
  tensor.set("data", writeFloats(data, shape.size()));
  tensor.set("shape", writeShape(shape));
  return tensor;
}

Index readIndex(const val& object, const char* key) { return static_cast<Index>(object[key].as<double>()); }
float readFloat(const val& object, const char* key) { return object[key].as<float>(); }
bool readBool(const val& object, const char* key) { return object[key].as<bool>(); }
std::string readString(const val& object, const char* key) { return object[key].as<std::string>(); }
uint64_t readSeed(const val& seed) { return std::bit_cast<uint64_t>(seed.as<double>()); }
Activation readActivation(const val& options, const char* key) { return activationNamed(readString(options, key)); }
DropoutOptions readDropoutOptions(const val& options) {
  const bool unscaled = readString(options, "scaling") == "none";
  return {.p = readFloat(options, "p"), .scaling = unscaled ? DropoutScaling::kNone : DropoutScaling::kInverted};
}

std::optional<Index> readWindow(const val& options) {
  const val window = options["window"];
  if (window.isNull()) return std::nullopt;
  return static_cast<Index>(window.as<double>());
}

std::optional<MaskTensor> readMask(const char* argument, const val& mask) {
  if (mask.isNull() || mask.isUndefined()) return std::nullopt;
  const Shape shape = readShape(mask["shape"]);
  const val data = mask["data"];
  if (data["BYTES_PER_ELEMENT"].as<int>() == 1)
    return MaskTensor::boolean(argument, readData<uint8_t>(data, shape.size()), shape);
  return MaskTensor::additive(argument, readData<float>(data, shape.size()), shape);
}

Shape withWidth(const Shape& shape, Index width) {
  std::vector<Index> extents = shape.extents();
  if (extents.empty()) throwShapeMismatch("shape", "at least 1 axis", shape);
  extents.back() = width;
  return Shape(std::move(extents));
}

RotaryFields readRotary(const val& options, Index head_dim) {
  RotaryFields read{readIndex(options, "dim"), options["base"].as<double>(), Rotary::Pairing::kHalfSplit};
  if (read.dim == 0) read.dim = head_dim;
  if (readString(options, "pairing") == "interleaved") read.pairing = Rotary::Pairing::kInterleaved;
  if (read.dim % 2 != 0 || read.dim > head_dim) {
    throwInvalid(ErrorCode::kInvalidArgument, "rotary.dim",
                 "an even number up to the width of a head, " + std::to_string(head_dim), std::to_string(read.dim));
  }
  return read;
}

RotaryOption::RotaryOption(const val& options, Index head_dim) {
  if (options.isNull() || options.isUndefined()) return;
  const RotaryFields read = readRotary(options, head_dim);
  rotary_.emplace(read.dim, read.base, read.pairing);
}

}  // namespace heed::bindings
