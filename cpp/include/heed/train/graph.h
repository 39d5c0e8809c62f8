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
/// An operation's backward function holds the matrices that it reads. Everything else is freed as soon as the forward
/// pass has used it.
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

/// The storage of a parameter that is a range of rows of another parameter's part (`whole`). Gradients are found by the
/// address of the whole part.
class RowSlice final : public RowStorage {
 public:
  /// Rows of `whole` starting at `first`; `row_size` is the number of elements in a row.
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

/// The gradients of the parameters of one module and its children. An object must not outlive its module.
///
/// A part of a parameter (Parameter::Part) is identified by its key, the address of its values: the PackedWeight of a
/// Linear, or the floats of a bias. Several parameters may share the rows at one address. Gradients are row-major,
/// regardless of the format of the values.
class ParameterGradients {
 public:
  explicit ParameterGradients(Module& module);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool requiresGradient(size_t parameter) const { return entries_[parameter].required; }
  /// Buffers never require gradients; setting it for one is ignored.
  void setRequiresGradient(size_t parameter, bool required);
  /// Whether the parameter required a gradient when the node with this Node::order was recorded.
  bool requiredGradientAt(size_t parameter, uint64_t order) const;
  /// Discards the history behind requiredGradientAt(). Call it only when no existing node will be differentiated.
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

  /// Call this before backward pass number `pass`, which is not 0, adds to a gradient.
  void reach(size_t parameter, uint64_t pass);
  /// Call this when pass number `pass` has ended early. Gradients that were not present before the pass are dropped.
  /// The others may contain parts of it, and requireWhole() rejects them until they are dropped.
  void abandon(uint64_t pass);
  /// Throws kInvalidArgument if the gradient may contain parts of a pass that ended early.
  void requireWhole(size_t parameter) const;

  /// The sparse gradient of a table: only rows that were looked up have a gradient.
  struct Rows {
    std::vector<Index> slots;   ///< for each row of the table, its slot (row in `values`), or -1; initially empty
    std::vector<Index> order;   ///< slot -> row of the table
    std::vector<float> values;  ///< (slots, row size)

    /// The gradient of a row of the table; null if it has none.
    const float* find(Index row, Index row_size) const {
      const Index slot = slots.empty() ? -1 : slots[static_cast<size_t>(row)];
      return slot < 0 ? nullptr : values.data() + slot * row_size;
    }
  };
  /// A parameter's gradient: dense, or sparse if it comes from embedding look-ups only.
  struct Entry {
    bool required = true;
    std::vector<uint64_t> changes;  // when `required` changed, numbered like Node::order
    bool present = false;
    bool by_rows = false;      // sparse: stored in `rows`
    uint64_t pass = 0;         // the last backward pass that added to it
    bool was_present = false;  // `present` before that pass
    bool is_partial = false;   // may contain parts of a pass that ended early
    Matrix dense;              // (rows, row size), empty until the first backward pass
    Rows rows;
  };
  Entry& entry(size_t parameter) { return entries_[parameter]; }

  /// A part of a parameter: rows [first_row, first_row + rows) are stored at the address `key`, starting at row
  /// `storage_row`.
  struct Location {
    size_t parameter;
    Index first_row;
    Index rows;
    Index storage_row = 0;
    const void* key = nullptr;
  };
  /// The parts stored at an address; empty if none of this module's parameters is stored there.
  std::span<const Location> find(const void* key) const;

  /// The dense gradient of a part, for adding to it; initially zeros.
  MatrixView dense(const Location& part);
  /// The gradient of one row of a table, for adding to it; initially zeros.
  float* row(const Location& table, Index row);

 private:
  std::vector<Parameter> parameters_;
  std::vector<Entry> entries_;
  std::vector<Location> locations_;  // sorted by address
};

class Graph;
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

/// One recorded operation.
struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();

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

/// A value that a backward function reads: stored, or recomputed when it is read.
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
