#pragma once

#include "../convert.h"
#include "../module.h"
#include "heed/train/graph.h"

/// Training in JavaScript: graphs, their variables and the gradients of parameters as handles, and a function for each
/// operation, layer and loss that records into a graph. Only the modules with training contain this.
namespace heed::bindings {

using train::Variable;

/// RawVariable: a value of a graph in the shape that it has in JavaScript. Its matrix has the rows and columns of
/// Shape::rows() and the last axis; without axes it is (1, 1).
class BoundVariable {
 public:
  BoundVariable() = default;
  BoundVariable(Shape shape, Variable variable) : shape_(std::move(shape)), variable_(std::move(variable)) {}

  const Shape& shape() const { return shape_; }
  const Variable& variable() const { return variable_; }
  /// RawTensor: a copy of the value.
  val value() const;
  /// RawTensor: what backward passes left in a leaf; zeros if none reached it.
  val gradient() const;
  bool needsGradient() const { return variable_.needsGradient(); }

 private:
  Shape shape_;
  Variable variable_;
};

/// RawGradients: the gradients of a module's parameters, in the order of BoundModule::parameters().
class BoundGradients {
 public:
  explicit BoundGradients(BoundModule& module) : gradients_(module.module()) {}
  train::ParameterGradients& gradients() { return gradients_; }

  bool isBuffer(unsigned parameter) const { return gradients_.parameters()[parameter].kind == ParameterKind::kBuffer; }
  bool requiresGradient(unsigned parameter) const { return gradients_.requiresGradient(parameter); }
  void setRequiresGradient(unsigned parameter, bool required) { gradients_.setRequiresGradient(parameter, required); }
  /// A Float32Array, or null before any backward pass has reached the parameter.
  val read(unsigned parameter) const;
  double sumOfSquares(unsigned parameter) const { return gradients_.sumOfSquares(parameter); }
  void scale(unsigned parameter, float factor) { gradients_.scale(parameter, factor); }
  void zero(unsigned parameter) { gradients_.zero(parameter); }

 private:
  train::ParameterGradients gradients_;
};

/// RawGraph.
class BoundGraph {
 public:
  train::Graph& graph() { return graph_; }

 private:
  train::Graph graph_{context()};
};

// Functions instead of expressions where the expression would be compiled into dozens of callers.
/// A new handle.
BoundVariable* made(const Shape& shape, const Variable& variable);
/// requireShape().
void requireSame(const char* argument, const Shape& got, const Shape& expected);

/// The handle that `value` holds, or null if it is null or undefined.
BoundVariable* readHandle(const val& value);
/// The variable of a handle; empty if there is none.
Variable readVariable(const val& value);
/// The same as one row of all elements.
Variable asRow(train::Graph& graph, const BoundVariable& variable);

/// The extents of `shape` from axis `first` to `last`, without it.
Shape axes(const Shape& shape, Index first, Index last);
/// For each element of `target` in order, the index of the element of `shape` that broadcasts to it.
std::vector<Index> sourcesOf(const Shape& shape, const Shape& target);
/// x repeated along the axes of `target`, to which it broadcasts.
Variable broadcast(train::Graph& graph, const BoundVariable& x, const Shape& target);

}  // namespace heed::bindings
