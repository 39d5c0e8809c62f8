#pragma once

#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "heed/train/graph.h"

namespace heed::train {

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
