#include "convert.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>
#include <stdexcept>

/// Instead of libc++abi's, which would bring printf into the module for a message that nothing here can cause.
extern "C" [[noreturn]] void abort_message(const char*, ...) { __builtin_trap(); }

namespace heed::bindings {

Arena& arena() {
  static Arena instance;
  return instance;
}

void raise(const char* code, const std::string& message) {
  val::module_property("HeedError").new_(std::string(code), message).throw_();
  __builtin_unreachable();
}

namespace {

/// What a call took from the arena, given back; of a call that took a lot the memory itself, too, so that weights may
/// have it.
class CallScope {
 public:
  ~CallScope() {
    scope_.reset();
    arena().trim(kKeptBytes);
  }

 private:
  static constexpr size_t kKeptBytes = 64 << 20;
  std::optional<Arena::Scope> scope_{std::in_place, arena()};
};

}  // namespace

void runGuarded(void (*body)(void*), void* argument) {
  const char* code = nullptr;
  std::string message;
  try {
    const CallScope scope;
    body(argument);
    return;
  } catch (const Error& error) {
    code = errorCodeName(error.code());
    message = error.what();
  } catch (const std::bad_alloc&) {
    code = errorCodeName(ErrorCode::kOutOfMemory);
    message = "memory: the engine refused to grow it; expected room for the sizes asked for";
  } catch (const std::length_error&) {  // what a std::vector throws beyond the address space
    code = errorCodeName(ErrorCode::kOutOfMemory);
    message = "memory: got a size beyond 32-bit addresses; expected room for the sizes asked for";
  }
  raise(code, message);  // outside the handlers, so that the C++ exception is gone when JavaScript's is thrown
}

Shape readShape(const val& array) {
  std::vector<Index> extents;
  const auto rank = array["length"].as<unsigned>();
  for (unsigned axis = 0; axis < rank; ++axis) extents.push_back(static_cast<Index>(array[axis].as<double>()));
  return Shape(std::move(extents));
}

namespace {

template <class T>
T* copyIn(const val& array, Index count) {
  if (array["length"].as<double>() != static_cast<double>(count)) {
    throw Error(ErrorCode::kShapeMismatch, "data: got " + std::to_string(array["length"].as<unsigned>()) +
                                               " values; expected " + std::to_string(count) + " as the shape says");
  }
  T* data = arena().take<T>(count);
  val(emscripten::typed_memory_view(static_cast<size_t>(count), data)).call<void>("set", array);
  return data;
}

val writeShape(const Shape& shape) {
  val array = val::array();
  for (const Index extent : shape.extents()) array.call<void>("push", static_cast<double>(extent));
  return array;
}

}  // namespace

Input readTensor(const val& tensor) {
  Shape shape = readShape(tensor["shape"]);
  float* data = copyIn<float>(tensor["data"], shape.size());
  return {std::move(shape), data};
}

std::optional<Input> readOptionalTensor(const val& tensor) {
  if (tensor.isNull() || tensor.isUndefined()) return std::nullopt;
  return readTensor(tensor);
}

val writeFloats(const float* data, Index count) {
  return val(emscripten::typed_memory_view(static_cast<size_t>(count), data)).call<val>("slice");
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
Activation readActivation(const val& options) { return activationNamed(readString(options, "activation")); }
DropoutScaling readScaling(const val& options) {
  return readString(options, "scaling") == "none" ? DropoutScaling::kNone : DropoutScaling::kInverted;
}

std::optional<Index> readWindow(const val& options) {
  const val window = options["window"];
  if (window.isNull()) return std::nullopt;
  return static_cast<Index>(window.as<double>());
}

std::optional<MaskInput> readMask(const val& mask) {
  if (mask.isNull() || mask.isUndefined()) return std::nullopt;
  Shape shape = readShape(mask["shape"]);
  const val data = mask["data"];
  if (data["BYTES_PER_ELEMENT"].as<int>() == 1) {
    const uint8_t* bytes = copyIn<uint8_t>(data, shape.size());
    return MaskInput{Mask::Kind::kBoolean, bytes, std::move(shape)};
  }
  const float* floats = copyIn<float>(data, shape.size());
  return MaskInput{Mask::Kind::kAdditive, floats, std::move(shape)};
}

CallInput readMasks(const char* mask_name, const val& mask, const char* key_mask_name, const val& key_mask,
                    const std::array<Index, 4>& target) {
  CallInput call;
  if (const auto m = readMask(mask))
    call.masks.push_back(Mask::broadcast(mask_name, m->kind, m->data, m->shape, target));
  if (const auto m = readMask(key_mask)) {
    // [N, S], or [S] for one sequence: the same keys for every head and query.
    const bool fits = m->shape.rank() >= 1 && m->shape.rank() <= 2 && m->shape[-1] == target[3] &&
                      (m->shape.rank() == 1 ? target[0] == 1 : m->shape[0] == target[0]);
    if (!fits) {
      throw Error(ErrorCode::kShapeMismatch, std::string(key_mask_name) + ": got shape " + m->shape.toString() +
                                                 "; expected " + Shape{target[0], target[3]}.toString());
    }
    call.masks.push_back({m->kind, m->data, {target[3], 0, 0, 1}});
  }
  return call;
}

CallInput readCall(const val& options, const std::array<Index, 4>& target, bool with_head_mask) {
  CallInput call = readMasks("mask", options["mask"], "keyMask", options["keyMask"], target);
  call.options.causal = readBool(options, "causal");
  call.options.window = readWindow(options);
  call.return_weights = readBool(options, "returnWeights");
  if (with_head_mask) {
    if (const auto head_mask = readOptionalTensor(options["headMask"])) {
      const Shape& shape = head_mask->shape;
      const bool fits = shape == Shape{target[1]} || shape == Shape{target[0], target[1]};
      if (!fits) {
        throw Error(ErrorCode::kShapeMismatch, "headMask: got shape " + shape.toString() + "; expected " +
                                                   Shape{target[1]}.toString() + " or " +
                                                   Shape{target[0], target[1]}.toString());
      }
      call.options.head_scale = {head_mask->data, static_cast<size_t>(shape.size())};
    }
  }
  return call;
}

Batch readBatch(const char* argument, const val& tensor, Index width) {
  const Input input = readTensor(tensor);
  const Index rank = input.shape.rank();
  if (rank < 2 || rank > 3 || input.shape[-1] != width) {
    const std::string w = std::to_string(width);
    throw Error(ErrorCode::kShapeMismatch, std::string(argument) + ": got shape " + input.shape.toString() +
                                               "; expected [N, L, " + w + "] or [L, " + w + "]");
  }
  const Index count = rank == 3 ? input.shape[0] : 1;
  const Index length = input.shape[-2];
  return {input.matrix(), Sequences::uniform(count, length), count, length, rank == 3};
}

MultiHeadAttentionOptions readAttentionLayerOptions(const val& o) {
  return {.embed_dim = readIndex(o, "embedDim"),
          .num_heads = readIndex(o, "numHeads"),
          .key_dim = readIndex(o, "keyDim"),
          .value_dim = readIndex(o, "valueDim"),
          .key_input_dim = readIndex(o, "keyInputDim"),
          .value_input_dim = readIndex(o, "valueInputDim"),
          .bias = readBool(o, "bias"),
          .activation = readActivation(o),
          .dropout = readFloat(o, "dropout")};
}

EncoderLayerOptions readEncoderLayerOptions(const val& o) {
  return {.embed_dim = readIndex(o, "embedDim"),
          .num_heads = readIndex(o, "numHeads"),
          .feed_forward_dim = readIndex(o, "feedForwardDim"),
          .key_dim = readIndex(o, "keyDim"),
          .value_dim = readIndex(o, "valueDim"),
          .activation = readActivation(o),
          .norm_first = readBool(o, "normFirst"),
          .eps = readFloat(o, "eps"),
          .dropout = readFloat(o, "dropout"),
          .bias = readBool(o, "bias"),
          .gated = readBool(o, "gated")};
}

Rotary::Pairing readPairing(const val& options) {
  return readString(options, "pairing") == "interleaved" ? Rotary::Pairing::kInterleaved : Rotary::Pairing::kHalfSplit;
}

RotaryOption::RotaryOption(const val& options, Index head_dim) {
  if (options.isNull() || options.isUndefined()) return;
  given_ = true;
  dim_ = readIndex(options, "dim");
  if (dim_ == 0) dim_ = head_dim;
  base_ = options["base"].as<double>();
  pairing_ = readPairing(options);
  if (dim_ % 2 != 0 || dim_ > head_dim) {
    throw Error(ErrorCode::kInvalidArgument, "rotary.dim: got " + std::to_string(dim_) +
                                                 "; expected an even number up to the head's width, " +
                                                 std::to_string(head_dim));
  }
}

const Rotary* RotaryOption::tables(Index length, Index first) {
  if (!given_) return nullptr;
  if (!tables_ || tables_->maxLength() - length < first) {
    // Rounded up, so that a text that grows by a word does not make new tables each time.
    const uint64_t needed = std::max<uint64_t>(static_cast<uint64_t>(length) + static_cast<uint64_t>(first), 64);
    const Index rounded =
        static_cast<Index>(std::min<uint64_t>(std::bit_ceil(needed), std::numeric_limits<Index>::max()));
    tables_.emplace(dim_, rounded, base_, pairing_);
  }
  return &*tables_;
}

}  // namespace heed::bindings
