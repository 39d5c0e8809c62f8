#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "heed/context.h"
#include "heed/module.h"

/// Reverse-mode differentiation. In training, operations (train/ops.h) and layers (train/recording_evaluator.h) compute
/// the same results as in inference and record how to differentiate them; Backward walks the record in reverse.
///
/// Only what a gradient needs is kept: an operation's backward function holds the matrices that it reads, and
/// everything else is freed as soon as the forward pass has used it.
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
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  MatrixView view() { return heed::view(data_.get(), rows_, columns_); }
  ConstMatrixView values() const { return heed::view(static_cast<const float*>(data_.get()), rows_, columns_); }

 private:
  std::unique_ptr<float[]> data_;
  Index rows_ = 0, columns_ = 0;
};

/// Rows [first, first + rows) of a part, as the storage of a parameter that has these rows under another name. Their
/// gradients are found by the address of the whole part.
class RowSlice final : public RowStorage {
 public:
  RowSlice(const Parameter::Part& whole, Index first, Index row_size);
  ~RowSlice() override;
  RowSlice(const RowSlice&) = delete;
  RowSlice& operator=(const RowSlice&) = delete;

  void write(Index first, Index count, const float* rows) override;
  void writeInt8(Index first, Index count, const signed char* rows, const float* scales) override;
  void read(Index first, Index count, float* rows) const override;

  /// The address of a part's values, and the index of the part's first row among the rows there.
  struct Place {
    const void* key;
    Index first;
  };
  static Place placeOf(const Parameter::Part& part);

 private:
  Parameter::Part whole_;
  Index first_, row_size_;
};

/// The gradients of the parameters of one module and its children. An object lives as long as its module.
///
/// A part of a parameter (Parameter::Part) is identified by the address of its values, which operations know: the
/// PackedWeight of a Linear, the floats of a bias. Several parameters may share the rows at one address. Gradients are
/// row-major, whatever the format of the values.
class ParameterGradients {
 public:
  explicit ParameterGradients(Module& module);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool requiresGradient(size_t parameter) const { return entries_[parameter].required; }
  /// Buffers never require gradients; setting it for one is ignored.
  void setRequiresGradient(size_t parameter, bool required);
  /// Whether the parameter required a gradient when the node with this Node::order was recorded.
  bool requiredGradientAt(size_t parameter, uint64_t order) const;
  /// Forgets earlier requirements. Call it only when no earlier node will be differentiated any more.
  void forgetRequirements();
  /// Whether any backward pass has reached the parameter since the gradient was last dropped.
  bool hasGradient(size_t parameter) const { return entries_[parameter].present; }
  /// Copies rows [first, first + count) of the gradient; rows without one are zeros.
  void read(size_t parameter, Index first, Index count, float* out) const;
  /// Adds rows to the gradient, as a backward pass does; for gradients computed elsewhere.
  void add(size_t parameter, Index first, Index count, const float* rows);
  /// Multiplies a gradient by `factor`, for clipping.
  void scale(size_t parameter, float factor);
  /// The sum of squares of a gradient, in double; not finite if any element is not. A gradient that is not required or
  /// not present counts as zeros.
  double sumOfSquares(size_t parameter) const;
  /// Drops one gradient, or all of them: they become zeros and are not present.
  void zero(size_t parameter);
  void zero();

  /// Says that the backward pass of this number, which is not 0, is about to add to a gradient.
  void reach(size_t parameter, uint64_t pass);
  /// That pass ended early. Gradients that were not present before it are dropped; the others contain an unknown part
  /// of it, and requireWhole() refuses them until they are dropped.
  void abandon(uint64_t pass);
  /// Throws kInvalidArgument for a gradient that contains a part of a pass.
  void requireWhole(size_t parameter) const;

  /// The gradient of a table in which only some rows have one: those that were looked up.
  struct Rows {
    std::vector<Index> slots;   ///< for each row of the table, its row in `values`, or -1; initially empty
    std::vector<Index> order;   ///< slot -> row of the table
    std::vector<float> values;  ///< (slots, row size)

    /// The values of a row of the table; null if it has none.
    const float* find(Index row, Index row_size) const {
      const Index slot = slots.empty() ? -1 : slots[static_cast<size_t>(row)];
      return slot < 0 ? nullptr : values.data() + slot * row_size;
    }
  };
  /// A parameter's gradient: dense, or by rows if it comes from embedding look-ups only.
  struct Entry {
    bool required = true;
    std::vector<uint64_t> changes;  // of `required`, numbered as Node::order
    bool present = false;
    bool by_rows = false;
    uint64_t pass = 0;         // the last one that reached it
    bool was_present = false;  // before that pass
    bool is_partial = false;   // contains an unknown part of a pass
    Matrix dense;              // (rows, row size), empty until the first backward pass
    Rows rows;
  };
  Entry& entry(size_t parameter) { return entries_[parameter]; }

  /// A part: rows [first_row, first_row + rows) of a parameter are stored at the address `key`, from row `storage_row`
  /// on.
  struct Location {
    size_t parameter;
    Index first_row;
    Index rows;
    Index storage_row = 0;
    const void* key = nullptr;
  };
  /// The parts stored at an address; none if the address is not one of this module's.
  std::span<const Location> find(const void* key) const;

  /// The dense gradient of a part, to add to; initially zeros.
  MatrixView dense(const Location& part);
  /// The gradient of one row of a table, to add to.
  float* row(const Location& table, Index row);

 private:
  std::vector<Parameter> parameters_;
  std::vector<Entry> entries_;
  std::vector<Location> locations_;  // sorted by address
};

class Graph;
class Backward;

/// A function void(Matrix& gradient, Backward& pass), or none. It replaces std::function, whose code for copying what
/// each function captures would make the download of training a tenth larger.
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

/// One recorded operation.
struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();

  uint64_t order = 0;                         // all nodes are numbered in the order of their forward passes
  uint64_t generation = 0;                    // Graph::generation() at that time
  Index rows = 0, columns = 0;                // of the value and of its gradient
  std::vector<std::shared_ptr<Node>> inputs;  // null for inputs that need no gradient
  /// Adds to the gradients of the inputs and parameters. It may consume `gradient`, but not what it has saved: a node
  /// that two losses share runs once for each loss. Null for leaves and external nodes.
  BackwardFunction backward;
  /// Set for external nodes, whose gradients the caller computes (see Backward::proceed()): whatever the caller needs
  /// for that.
  std::shared_ptr<void> external;
  Matrix gradient;  // the sum of what has reached this node in the current backward pass; empty at first
  bool leaf = false;
  std::shared_ptr<Node> next_dropped;  // of the nodes that wait to be destroyed
};

/// Recomputes a value from what its operation keeps for its own gradient anyway.
struct Recomputation {
  Recomputation() = default;
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;
  virtual ~Recomputation() = default;
  virtual Matrix run() const = 0;
};

/// The value of an operation (or a leaf) and its place in the graph. Copies share both.
class Variable {
 public:
  Variable() = default;
  Variable(std::shared_ptr<const Matrix> value, std::shared_ptr<Node> node)
      : value_(std::move(value)), node_(std::move(node)) {}
  /// The same value, except that a backward function that reads it calls `f`, a function Matrix() that returns it,
  /// instead of keeping it. For values that are cheap to compute, if what `f` captures is kept for a gradient anyway.
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
  friend class Kept;
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

/// A value that a backward function reads: kept, or recomputed when it is read.
class Kept {
 public:
  Kept() = default;
  explicit Kept(const Variable& v) : value_(v.recomputation_ ? nullptr : v.value_), recomputation_(v.recomputation_) {}

  explicit operator bool() const { return value_ || recomputation_; }
  std::shared_ptr<const Matrix> value() const {
    return value_ ? value_ : std::make_shared<const Matrix>(recomputation_->run());
  }

 private:
  std::shared_ptr<const Matrix> value_;
  std::shared_ptr<const Recomputation> recomputation_;
};

/// The record of the operations, and the parameters whose gradients are wanted.
class Graph {
 public:
  explicit Graph(Context& context) : context_(context) {}

  Context& context() const { return context_; }

  /// Adds the parameters of a module. The object must stay alive until forget().
  void add(ParameterGradients& gradients) { gradients_.push_back(&gradients); }
  void forget(const ParameterGradients& gradients);
  /// Whether the values at `key` (see ParameterGradients) require a gradient.
  bool requiresGradient(const void* key) const;

  /// A leaf: an input of the graph. With `needs_gradient`, its gradient can be read after backward().
  Variable leaf(Matrix&& value, bool needs_gradient = false);
  /// The result of an operation. `uses_parameters`: whether one of its parameters requires a gradient. If no parameter
  /// or input requires one, nothing is recorded and `backward` is dropped. Inputs may be empty Variables.
  Variable record(Matrix&& value, std::initializer_list<std::reference_wrapper<const Variable>> inputs,
                  bool uses_parameters, BackwardFunction backward);
  Variable record(Matrix&& value, const std::vector<Variable>& inputs, bool uses_parameters, BackwardFunction backward);
  /// The result of an operation whose gradients the caller computes. `external` must not be null.
  Variable recordExternal(Matrix&& value, const std::vector<Variable>& inputs, std::shared_ptr<void> external);

  /// Invalidates everything that is recorded: parameters have changed.
  void invalidate();
  uint64_t generation() const { return generation_; }

 private:
  friend class Backward;
  Variable recordNodes(Matrix&& value, std::vector<std::shared_ptr<Node>>&& inputs, bool uses_parameters,
                       BackwardFunction&& backward);
  /// Calls f(gradients, location) for each part at `key` that requires a gradient and, in a backward pass, also
  /// required one in the forward pass.
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
  uint64_t pass_ = 0;  // the number of the outermost backward pass that runs, or 0
  uint64_t generation_ = 0;
  uint64_t differentiated_ = UINT64_MAX;  // the order of the node whose backward function runs; the greatest: none
};

/// One backward pass: d(sum(seed * output)) / d(everything that output depends on). Gradients of parameters are added
/// to those in ParameterGradients; gradients of leaves are left in their nodes. Each node, and what its operation
/// keeps, is freed as soon as it has run, unless a Variable or another node refers to it. A pass that ends early, by an
/// exception or because it is destroyed, leaves the gradients of leaves as they were before it; for those of parameters
/// see ParameterGradients::abandon().
class Backward {
 public:
  /// Prepares the pass. Throws kInvalidArgument after Graph::invalidate(), kShapeMismatch for a seed of another shape.
  Backward(Graph& graph, const Variable& output, Matrix&& seed);
  Backward(const Backward&) = delete;
  Backward& operator=(const Backward&) = delete;
  ~Backward();

  /// Runs the pass to its end and returns null, or to the next external node and returns the node and its gradient. The
  /// caller then adds the gradients of the node's inputs with give() and calls proceed() again.
  std::shared_ptr<Node> proceed(Matrix& gradient);
  /// The whole pass. Throws kUnsupported at an external node.
  static void run(Graph& graph, Variable output, Matrix&& seed);
  static void run(Graph& graph, Variable output, ConstMatrixView seed) { run(graph, std::move(output), Matrix(seed)); }

  Graph& graph() const { return graph_; }
  Context& context() const { return graph_.context_; }

  /// Adds f to the gradient of a node, if it is not null. `f(out, residual)` must write its value plus `residual`,
  /// which is null (the first contribution) or `out` itself.
  template <class F>
  void add(const std::shared_ptr<Node>& node, const F& f) {
    if (!node) return;
    const bool first = node->gradient.data() == nullptr;
    if (first) node->gradient = Matrix(node->rows, node->columns);
    const MatrixView out = node->gradient.view();
    const ConstMatrixView before = readOnly(out);
    f(out, first ? nullptr : &before);
  }
  /// Adds a matrix that is no longer needed; the first contribution is moved rather than copied.
  void give(const std::shared_ptr<Node>& node, Matrix&& gradient);

  /// Calls f(MatrixView gradient, Index first) for each part of the values at `key` that requires a gradient:
  /// `gradient` is the one to add to, `first` the index of the part's first row among those values.
  template <class F>
  void addToParameter(const void* key, const F& f) {
    graph_.forEachPart(key, [&](ParameterGradients& gradients, const ParameterGradients::Location& location) {
      gradients.reach(location.parameter, graph_.pass_);
      f(gradients.dense(location), location.storage_row);
    });
  }
  /// The gradient to add to for one row of the table at `key`; null if the row requires none.
  float* tableRow(const void* key, Index row);

 private:
  struct Later {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->order < b->order;
    }
  };

  /// Keeps the gradient of a leaf as it is before this pass.
  void remember(const std::shared_ptr<Node>& leaf);

  Graph& graph_;
  const bool is_outermost_;  // not one that another pass runs, to recompute a layer
  bool has_ended_ = false;
  std::vector<std::pair<std::shared_ptr<Node>, Matrix>> leaves_;  // with their gradients before this pass
  // The highest number first: a node comes after everything that uses its value.
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Later> waiting_;
};

}  // namespace heed::train
