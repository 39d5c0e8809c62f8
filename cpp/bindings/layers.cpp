#include "layers.h"

#include "core/check.h"

namespace heed::bindings {

val BoundLayer::forward(const val& arguments) {
  return guarded([&] {
    const RunScope scope(module());
    InferenceCall call(arguments);
    return drawing(module(), [&] { return run(call); });
  });
}

Batch batchOf(const char* argument, const TensorArgument& x, Index width) {
  const Shape& shape = x.shape;
  const Index rank = shape.rank();
  if (rank < 2 || rank > 3 || shape[-1] != width) {
    const std::string w = std::to_string(width);
    throwShapeMismatch(argument, "[N, L, " + w + "] or [L, " + w + "]", shape);
  }
  return {x.value, rank == 3 ? shape[0] : 1, shape[-2], rank == 3};
}

Batch readBatch(Call& call, const char* argument, Index width) {
  return batchOf(argument, *call.tensor(argument), width);
}

void requireSameCount(const char* argument, const Batch& batch, const Batch& other, const char* name) {
  if (batch.count == other.count && batch.batched == other.batched) return;
  const auto text = [](const Batch& b) {
    return b.batched ? "a batch of " + std::to_string(b.count) : "no batch axis";
  };
  throwInvalid(ErrorCode::kShapeMismatch, argument, text(other) + ", as in " + name, text(batch));
}

AttentionCall::AttentionCall(Call& call, const char* mask, const char* key_mask) {
  if (auto tensor = call.mask(mask)) masks_.push_back(std::move(*tensor));
  if (auto tensor = call.mask(key_mask)) {
    tensor->per_key = true;
    masks_.push_back(std::move(*tensor));
  }
  options.masks = masks_;
}

EMSCRIPTEN_BINDINGS(heed_layers) {
  emscripten::class_<BoundLayer, emscripten::base<BoundModule>>("Layer").function("forward", &BoundLayer::forward);
}

}  // namespace heed::bindings
