#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "heed/tensor.h"

/// The record of a forward pass: variables, and the nodes that compute their gradients.
namespace heed::train {

/// A row-major (rows, columns) matrix on the heap. Move-only; its elements are not initialized.
class Matrix {
 public:
  Matrix() = default;
  /// Throws kOutOfMemory.
  Matrix(Index rows, Index columns);
  explicit Matrix(ConstMatrixView values);

  Index rows() const { return rows_; }
  Index cols() const { return columns_; }
  Index size() const { return rows_ * columns_; }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  MatrixView view() { return heed::view(data_.get(), rows_, columns_); }
  ConstMatrixView values() const { return heed::view(static_cast<const float*>(data_.get()), rows_, columns_); }

 private:
  std::unique_ptr<float[]> data_;
  Index rows_ = 0, columns_ = 0;
};

class Backward;

/// A function with captures, or none. A replacement for std::function, whose code for copying captures would make the
/// training module 10 % larger.
template <class Signature>
class Captured;
template <class Result, class... Arguments>
class Captured<Result(Arguments...)> {
 public:
  Captured() = default;
  template <class F>
  Captured(F f) : call_(std::make_unique<Holder<F>>(std::move(f))) {}  // NOLINT(google-explicit-constructor)
  Result operator()(Arguments... arguments) const { return call_->run(arguments...); }

 private:
  struct Call {
    virtual ~Call() = default;
    virtual Result run(Arguments... arguments) = 0;
  };
  template <class F>
  struct Holder final : Call {
    explicit Holder(F&& f) : function(std::move(f)) {}
    Result run(Arguments... arguments) override { return function(arguments...); }
    F function;
  };
  std::unique_ptr<Call> call_;
};

using BackwardFunction = Captured<void(Matrix& gradient, Backward& pass)>;

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
using Recomputation = Captured<Matrix()>;

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
    if (node_) recomputation_ = std::make_shared<const Recomputation>(std::move(f));
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
    return value_ ? value_ : std::make_shared<const Matrix>((*recomputation_)());
  }

 private:
  std::shared_ptr<const Matrix> value_;
  std::shared_ptr<const Recomputation> recomputation_;
};

}  // namespace heed::train
