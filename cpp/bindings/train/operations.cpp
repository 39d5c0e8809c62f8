#include <emscripten/bind.h>

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "graph.h"
#include "heed/train/ops.h"
#include "ops/broadcast.h"

/// Operations on tensors of any shape, expressed by operations on matrices.
namespace heed::bindings {
namespace {

using train::Graph;

/// A handle for `result`, reshaped to `shape`.
BoundVariable* shaped(Graph& graph, const Shape& shape, const Variable& result) {
  return made(shape, train::reshape(graph, result, shape.rows(), shape.columns()));
}

/// A tensor as a matrix: the axes before `axis` become the rows, the others the columns.
Variable splitAt(Graph& graph, const BoundVariable& x, Index axis) {
  const Shape& shape = x.shape();
  return train::reshape(graph, x.variable(), axes(shape, 0, axis).size(), axes(shape, axis, shape.rank()).size());
}

/// The sum of two tensors that broadcast against each other.
BoundVariable* addOf(BoundGraph& graph, const BoundVariable& a, const BoundVariable& b) {
  return guarded([&] {
    const auto shape = broadcastShape(a.shape(), b.shape());
    if (!shape) throwShapeMismatch("b", "a shape that broadcasts against a, " + a.shape().toString(), b.shape());
    Graph& g = graph.graph();
    return made(*shape, train::add(g, broadcast(g, a, *shape), broadcast(g, b, *shape)));
  });
}

BoundVariable* reshapeOf(BoundGraph& graph, const BoundVariable& x, const val& extents) {
  return guarded([&] {
    const Shape shape = readShape(extents);
    if (shape.size() != x.shape().size()) {
      throwInvalid(ErrorCode::kShapeMismatch, "shape", "the " + std::to_string(x.shape().size()) + " elements of x",
                   shape.toString());
    }
    return shaped(graph.graph(), shape, x.variable());
  });
}

/// Checks an axis and returns it counted from 0; negative axes count from the end.
Index readAxis(const Shape& shape, double axis) {
  const Index rank = shape.rank();
  if (axis < static_cast<double>(-rank) || axis >= static_cast<double>(rank))
    throwInvalid(ErrorCode::kInvalidArgument, "axis", "an axis of the shape " + shape.toString(),
                 std::to_string(static_cast<Index>(axis)));
  return static_cast<Index>(axis) + (axis < 0 ? rank : 0);
}

/// Entries [first, first + count) of an axis.
BoundVariable* sliceOf(BoundGraph& graph, const BoundVariable& x, double given_axis, double first, double count) {
  return guarded([&] {
    const Shape& shape = x.shape();
    const Index axis = readAxis(shape, given_axis), inner = axes(shape, axis + 1, shape.rank()).size();
    std::vector<Index> extents = shape.extents();
    extents[static_cast<size_t>(axis)] = static_cast<Index>(count);
    Graph& g = graph.graph();
    return shaped(g, Shape(std::move(extents)),
                  train::sliceColumns(g, splitAt(g, x, axis), static_cast<Index>(first) * inner,
                                      static_cast<Index>(count) * inner));
  });
}

/// Concatenates the tensors of an array of handles along an axis. All other axes must have equal extents.
BoundVariable* concatenateOf(BoundGraph& graph, const val& tensors, double given_axis) {
  return guarded([&] {
    Graph& g = graph.graph();
    const Shape& shape = readHandle(tensors[0])->shape();
    const Index axis = readAxis(shape, given_axis);
    std::vector<Index> extents = shape.extents();
    Index& extent = extents[static_cast<size_t>(axis)];
    extent = 0;
    std::vector<Variable> parts;
    const auto number = tensors["length"].as<unsigned>();
    for (unsigned i = 0; i < number; ++i) {
      const BoundVariable& part = *readHandle(tensors[i]);
      const Shape& other = part.shape();
      if (other.rank() != shape.rank() || axes(other, 0, axis) != axes(shape, 0, axis) ||
          axes(other, axis + 1, other.rank()) != axes(shape, axis + 1, shape.rank())) {
        throwShapeMismatch("tensors[" + std::to_string(i) + "]",
                           shape.toString() + " except along axis " + std::to_string(axis), other);
      }
      if (other[axis] > std::numeric_limits<Index>::max() - extent)  // possible for tensors without elements
        throwShapeMismatch("tensors[" + std::to_string(i) + "]",
                           "an extent whose sum with those before it fits into 32 bits", other);
      extent += other[axis];
      parts.push_back(splitAt(g, part, axis));
    }
    return shaped(g, Shape(std::move(extents)), train::concatenateColumns(g, parts));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_operations) {
  using emscripten::allow_raw_pointers;
  using emscripten::function;
  function("recordAdd", &addOf, allow_raw_pointers());
  function("recordReshape", &reshapeOf, allow_raw_pointers());
  function("recordSlice", &sliceOf, allow_raw_pointers());
  function("recordConcatenate", &concatenateOf, allow_raw_pointers());
}

}  // namespace heed::bindings
