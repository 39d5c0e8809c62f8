#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "heed/train/matrix.h"

/// The record of a forward pass: variables, and the nodes that compute their gradients.
namespace heed::train {

class Backward;

/// A function void(Matrix& gradient, Backward& pass), or none. A replacement for std::function, whose code for copying
/// captures would make the training module 10 % larger.
class BackwardFunction {
 public:
  BackwardFunction() = default;
  template <class F>
  BackwardFunction(F f) : call_(std::make_unique<Holder<F>>(std::move(f))) {}  // NOLINT(google-explicit-constructor)
  void operator()(Matrix& gradient, Backward& pass) const { call_->run(gradient, pass); }

 private:
  struct Call {
    virtual ~Call() = default;
    virtual void run(Matrix& gradient, Backward& pass) = 0;
  };
  template <class F>
  struct Holder final : Call {
    explicit Holder(F&& f) : function(std::move(f)) {}
    void run(Matrix& gradient, Backward& pass) override { function(gradient, pass); }
    F function;
  };
  std::unique_ptr<Call> call_;
};

/// One recorded operation, or a leaf.
struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();
  /// The next number of the sequence that orders nodes, backward passes and changes of Entry::required (see
  /// ParameterGradients).
  static uint64_t nextOrder();

  uint64_t order = 0;                         // number of the node in the order of recording
  uint64_t generation = 0;                    // Graph::generation() when the node was recorded
  Index rows = 0, columns = 0;                // shape of the value and of its gradient
  std::vector<std::shared_ptr<Node>> inputs;  // null for inputs that need no gradient
  /// Adds to the gradients of the inputs and parameters. It may overwrite `gradient`, but not the matrices it has
  /// saved, because a node that two losses share runs once for each loss. Empty for leaves and external nodes.
  BackwardFunction backward;
  /// Marks an external node, whose gradients the caller computes (see Backward::proceed()), and holds the caller's
  /// data; otherwise null.
  std::shared_ptr<void> external;
  Matrix gradient;  // the gradient accumulated in the current backward pass; empty before the first contribution
  bool leaf = false;
  std::shared_ptr<Node> next_dropped;  // link in the list of nodes to destroy, see ~Node()
};

/// Recomputes a value from data that its operation saves for its own gradient anyway.
struct Recomputation {
  Recomputation() = default;
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;
  virtual ~Recomputation() = default;
  virtual Matrix run() const = 0;
};

/// The value of an operation (or a leaf) and its node in the graph. Copies share both.
class Variable {
 public:
  Variable() = default;
  Variable(std::shared_ptr<const Matrix> value, std::shared_ptr<Node> node)
      : value_(std::move(value)), node_(std::move(node)) {}
  /// Makes backward functions that read this value recompute it with `f`, a function Matrix(), instead of keeping it.
  /// For values that are cheap to compute, if the captures of `f` are kept for a gradient anyway.
  template <class F>
  Variable recomputedBy(F f) && {
    if (node_) recomputation_ = std::make_shared<const Holder<F>>(std::move(f));
    return std::move(*this);
  }

  explicit operator bool() const { return value_ != nullptr; }
  Index rows() const { return value_->rows(); }
  Index cols() const { return value_->cols(); }
  ConstMatrixView value() const { return value_->values(); }
  const std::shared_ptr<const Matrix>& shared() const { return value_; }
  /// Null if no gradient is needed.
  const std::shared_ptr<Node>& node() const { return node_; }
  bool needsGradient() const { return node_ != nullptr; }

 private:
  friend class SavedVariable;
  template <class F>
  struct Holder final : Recomputation {
    explicit Holder(F&& f) : function(std::move(f)) {}
    Matrix run() const override { return function(); }
    F function;
  };

  std::shared_ptr<const Matrix> value_;
  std::shared_ptr<Node> node_;
  std::shared_ptr<const Recomputation> recomputation_;
};

/// A value that a backward function reads: stored, or recomputed when it is read.
class SavedVariable {
 public:
  SavedVariable() = default;
  explicit SavedVariable(const Variable& v)
      : value_(v.recomputation_ ? nullptr : v.value_), recomputation_(v.recomputation_) {}

  explicit operator bool() const { return value_ || recomputation_; }
  std::shared_ptr<const Matrix> value() const {
    return value_ ? value_ : std::make_shared<const Matrix>(recomputation_->run());
  }

 private:
  std::shared_ptr<const Matrix> value_;
  std::shared_ptr<const Recomputation> recomputation_;
};

}  // namespace heed::train
