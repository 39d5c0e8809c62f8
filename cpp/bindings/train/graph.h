#pragma once

#include "../convert.h"
#include "../module.h"
#include "heed/train/graph.h"

/// Training from JavaScript: handles of graphs, variables and gradients of parameters, and functions that record
/// operations, layers and losses. Only in builds with training.
namespace heed::bindings {

using train::Variable;

/// Implements RawVariable: a variable of a graph with its shape in JavaScript. Its matrix is (shape.rows(),
/// shape.columns()).
class BoundVariable {
 public:
  BoundVariable() = default;
  BoundVariable(Shape shape, Variable variable) : shape_(std::move(shape)), variable_(std::move(variable)) {}

  const Shape& shape() const { return shape_; }
  const Variable& variable() const { return variable_; }
  /// A copy of the value as a RawTensor.
  val value() const;
  /// The gradient of a leaf as a RawTensor; zeros if no backward pass has reached it.
  val gradient() const;
  bool needsGradient() const { return variable_.needsGradient(); }

 private:
  Shape shape_;
  Variable variable_;
};

/// Implements RawGradients: the gradients of a module's parameters, in the order of BoundModule::parameters().
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

/// Implements RawGraph.
class BoundGraph {
 public:
  train::Graph& graph() { return graph_; }

 private:
  train::Graph graph_{context()};
};

// Functions for expressions that would otherwise be compiled into dozens of callers.
/// Allocates a new handle; without a shape, that of a matrix.
BoundVariable* made(const Shape& shape, const Variable& variable);
BoundVariable* made(const Variable& variable);
/// Calls requireShape().
void requireSame(const char* argument, const Shape& got, const Shape& expected);

/// The handle that `value` contains; null if it is null or undefined.
BoundVariable* readHandle(const val& value);
/// The variable of the handle in `value`; empty if it is null or undefined.
Variable readVariable(const val& value);
/// A variable reshaped to one row.
Variable asRow(train::Graph& graph, const BoundVariable& variable);

/// Axes [first, last) of `shape`.
Shape axes(const Shape& shape, Index first, Index last);
/// x broadcast to the shape `target`.
Variable broadcast(train::Graph& graph, const BoundVariable& x, const Shape& target);

}  // namespace heed::bindings
