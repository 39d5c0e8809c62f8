#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "heed/context.h"
#include "heed/train/parameter_gradients.h"
#include "heed/train/variable.h"

/// Reverse-mode differentiation. In training, operations (train/ops.h) and layers (train/recording_evaluator.h) compute
/// the same results as in inference and record how to differentiate them; Backward walks the record in reverse.
///
/// An operation's backward function holds the matrices that it reads. Everything else is freed as soon as the forward
/// pass has used it.
namespace heed::train {

/// Records operations, and knows the parameters whose gradients are needed.
class Graph {
 public:
  explicit Graph(Context& context) : context_(context) {}

  Context& context() const { return context_; }

  /// Adds the parameters of a module. `gradients` must stay alive until forget().
  void add(ParameterGradients& gradients) { gradients_.push_back(&gradients); }
  void forget(const ParameterGradients& gradients);
  /// Whether the values at `key` (see ParameterGradients) require a gradient.
  bool requiresGradient(const void* key) const;

  /// A leaf: an input of the graph. With `needs_gradient`, its gradient can be read after backward().
  Variable leaf(Matrix&& value, bool needs_gradient = false);
  /// Records an operation and returns its result. `uses_parameters`: whether any of its parameters requires a gradient.
  /// If no parameter or input requires one, nothing is recorded and `backward` is dropped. Inputs may be empty.
  Variable record(Matrix&& value, std::initializer_list<std::reference_wrapper<const Variable>> inputs,
                  bool uses_parameters, BackwardFunction backward);
  Variable record(Matrix&& value, const std::vector<Variable>& inputs, bool uses_parameters, BackwardFunction backward);
  /// Records an operation whose gradients the caller computes, and returns its result. `external` must not be null.
  Variable recordExternal(Matrix&& value, const std::vector<Variable>& inputs, std::shared_ptr<void> external);

  /// Invalidates all recorded operations. Call it when parameters have changed.
  void invalidate();
  uint64_t generation() const { return generation_; }

 private:
  friend class Backward;
  Variable recordNodes(Matrix&& value, std::vector<std::shared_ptr<Node>>&& inputs, bool uses_parameters,
                       BackwardFunction&& backward);
  /// Calls f(gradients, location) for each part at `key` that requires a gradient and, during a backward pass, required
  /// one in the forward pass, too.
  template <class F>
  void forEachPart(const void* key, const F& f) const {
    for (ParameterGradients* gradients : gradients_) {
      for (const ParameterGradients::Location& location : gradients->find(key)) {
        if (gradients->requiresGradient(location.parameter) &&
            gradients->requiredGradientAt(location.parameter, differentiated_))
          f(*gradients, location);
      }
    }
  }

  Context& context_;
  std::vector<ParameterGradients*> gradients_;
  uint64_t pass_ = 0;  // number of the running outermost backward pass, or 0
  uint64_t generation_ = 0;
  uint64_t differentiated_ = UINT64_MAX;  // Node::order of the running backward function; UINT64_MAX: none
};

}  // namespace heed::train
