#pragma once

#include <memory>
#include <optional>

#include "convert.h"
#include "heed/inference_evaluator.h"
#include "sites.h"

namespace heed::bindings {

/// A tensor argument: its shape, and its elements as a matrix whose columns are the last axis.
struct TensorArgument {
  Shape shape;
  Value value;
  const void* source;  ///< identifies the tensor: equal for arguments that are the same variable of a graph
};

/// One call of a layer or function, with arguments and options by name. InferenceCall copies tensors in and out. In
/// training, tensors, additive masks and results are variables of a graph.
class Call {
 public:
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Evaluator& evaluator() const { return evaluator_; }
  /// The object of all arguments.
  const val& arguments() const { return arguments_; }

  /// A tensor argument; nothing if it is null or undefined.
  virtual std::optional<TensorArgument> tensor(const char* name) = 0;
  /// A mask argument; nothing if it is null or undefined.
  virtual std::optional<MaskTensor> mask(const char* name) = 0;
  /// Makes the evaluator read and edit the sites in the arguments from now on.
  virtual void useSites(const Sequences& queries, const Sequences& keys) = 0;
  /// Keeps tables alive while the call or its results need them, even if their owner replaces them.
  const Rotary* share(const std::shared_ptr<const Rotary>& tables) const {
    evaluator_.share(tables);
    return tables.get();
  }
  /// A result with this shape and the elements of `value`.
  virtual val result(const Shape& shape, const Value& value) = 0;

 protected:
  Call(Evaluator& evaluator, const val& arguments) : evaluator_(evaluator), arguments_(arguments) {}
  ~Call() = default;

 private:
  Evaluator& evaluator_;
  const val& arguments_;
};

/// A call in inference: tensors are copied into the arena and out of it.
class InferenceCall final : public Call {
 public:
  explicit InferenceCall(const val& arguments) : Call(computing_, arguments), computing_(context()) {}

  std::optional<TensorArgument> tensor(const char* name) override {
    const auto input = readOptionalTensor(arguments()[name]);
    if (!input) return std::nullopt;
    return TensorArgument{input->shape, input->matrix(), input->data};
  }
  std::optional<MaskTensor> mask(const char* name) override { return readMask(name, arguments()[name]); }
  void useSites(const Sequences& queries, const Sequences& keys) override {
    sites_ = readSites<BoundSites>(arguments()["sites"], queries, keys);
    computing_.setSites(sites_.get());
  }
  val result(const Shape& shape, const Value& value) override { return writeTensor(shape, value.data()); }

 private:
  InferenceEvaluator computing_;
  std::unique_ptr<BoundSites> sites_;
};

/// Memory for attention weights of this shape if the call's option returnWeights is true; otherwise null.
inline float* weightsFor(const Call& call, const Shape& shape) {
  return readBool(call.arguments(), "returnWeights") ? arena().take<float>(shape.size()) : nullptr;
}

/// The implementation of an API function by name; see Core in web/src/base/wasm/core.ts.
val (*functionNamed(const std::string& name))(Call& call);

}  // namespace heed::bindings
