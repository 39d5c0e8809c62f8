#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <queue>
#include <utility>
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

/// One backward pass: d(sum(seed * output)) / d(everything that output depends on). Gradients of parameters are added
/// to those in ParameterGradients; gradients of leaves are left in their nodes. Each node and the matrices it has saved
/// are freed as soon as it has run, unless a Variable or another node refers to it. A pass that ends early, by an
/// exception or because the object is destroyed, restores the gradients of leaves; for those of parameters see
/// ParameterGradients::abandon().
class Backward {
 public:
  /// Prepares the pass. Throws kInvalidArgument after Graph::invalidate(), kShapeMismatch for a seed of another shape.
  Backward(Graph& graph, const Variable& output, Matrix&& seed);
  Backward(const Backward&) = delete;
  Backward& operator=(const Backward&) = delete;
  ~Backward();

  /// Runs the pass up to the next external node and returns that node, with its gradient in `gradient`, or to its end
  /// and returns null. After an external node, the caller adds the gradients of the node's inputs with give() and calls
  /// proceed() again.
  std::shared_ptr<Node> proceed(Matrix& gradient);
  /// Runs a whole pass. Throws kUnsupported at an external node.
  static void run(Graph& graph, Variable output, Matrix&& seed);
  static void run(Graph& graph, Variable output, ConstMatrixView seed) { run(graph, std::move(output), Matrix(seed)); }

  Graph& graph() const { return graph_; }
  Context& context() const { return graph_.context_; }

  /// Adds a contribution to the gradient of `node`, which may be null. `f(out, residual)` must write the contribution
  /// plus `residual`, which is null (the first contribution) or `out` itself.
  template <class F>
  void add(const std::shared_ptr<Node>& node, const F& f) {
    if (!node) return;
    const bool first = node->gradient.data() == nullptr;
    if (first) node->gradient = Matrix(node->rows, node->columns);
    const MatrixView out = node->gradient.view();
    const ConstMatrixView before = readOnly(out);
    f(out, first ? nullptr : &before);
  }
  /// Adds an Eigen expression to the gradient of `node`, which may be null.
  template <class Expression>
  void addValue(const std::shared_ptr<Node>& node, const Expression& value) {
    add(node, [&](MatrixView out, const ConstMatrixView* residual) {
      if (residual) {
        out += value;
      } else {
        out = value;
      }
    });
  }
  /// The gradient of `node` for adding to it; zeros before the first contribution. Without data if `node` is null.
  MatrixView gradient(const std::shared_ptr<Node>& node);
  /// Adds a matrix to the gradient of `node`, which may be null. The first contribution is moved rather than copied.
  void give(const std::shared_ptr<Node>& node, Matrix&& gradient);

  /// Calls f(MatrixView gradient, Index first) for each part of the values at `key` that requires a gradient. f must
  /// add to `gradient`; `first` is the index of the part's first row among those values.
  template <class F>
  void addToParameter(const void* key, const F& f) {
    graph_.forEachPart(key, [&](ParameterGradients& gradients, const ParameterGradients::Location& location) {
      gradients.reach(location.parameter, graph_.pass_);
      f(gradients.dense(location), location.storage_row);
    });
  }
  /// The gradient of one row of the table at `key`, for adding to it; null if the row requires none.
  float* tableRow(const void* key, Index row);

 private:
  struct Later {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->order < b->order;
    }
  };

  /// Saves the gradient that a leaf has before this pass.
  void remember(const std::shared_ptr<Node>& leaf);

  Graph& graph_;
  const bool is_outermost_;  // false for a pass inside another one, which recomputes a layer
  bool has_ended_ = false;
  std::vector<std::pair<std::shared_ptr<Node>, Matrix>> leaves_;  // leaves and their gradients before this pass
  // The highest number first: a node comes after everything that uses its value.
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Later> waiting_;
};

}  // namespace heed::train
