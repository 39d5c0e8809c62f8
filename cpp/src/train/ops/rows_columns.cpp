/// Operations that move rows and columns. Gradients move in the opposite direction:
///
///   Y = [A, B]               dA, dB = the parts of dY
///   Y = [A; B]               dA, dB = the parts of dY
///   Y = X[:, first : last]   dX = dY there, 0 elsewhere
///   Y_i = X_{indices[i]}     dX_k = sum of dY_i over the i with indices[i] = k
///   Y = X + [0, P, 0]        dP = dY[:, first : last], dX = dY
///   Y_{indices[i]} = X_i     dX_i = dY_{indices[i]}
///   Y = X^T                  dX = dY^T
///   y_t = sum c w_{row_t}    dw_k = sum of c dy_t over the t with row_t = k, for each table w
#include <algorithm>
#include <string>

#include "core/check.h"
#include "heed/train/ops.h"
#include "ops/vectors.h"
#include "train/ops/sums.h"

namespace heed::train {
namespace {

std::vector<std::shared_ptr<Node>> nodesOf(const std::vector<Variable>& parts) {
  std::vector<std::shared_ptr<Node>> nodes;
  nodes.reserve(parts.size());
  for (const Variable& part : parts) nodes.push_back(part.node());
  return nodes;
}

/// Concatenates rows or columns. block(matrix, first, count): `count` of them in a matrix.
template <class Block>
Variable concatenate(Graph& graph, const std::vector<Variable>& parts, bool rows, const Block& block) {
  if (parts.empty()) throwInvalid(ErrorCode::kInvalidArgument, "parts", "at least one", "an empty list");
  std::vector<Index> first = {0};
  for (size_t i = 0; i < parts.size(); ++i) {
    const Variable &part = parts[i], &like = parts[0];
    const std::string name = "parts[" + std::to_string(i) + "]";
    requireShape(name.c_str(), part.value(), rows ? part.rows() : like.rows(), rows ? like.cols() : part.cols());
    first.push_back(first.back() + (rows ? part.rows() : part.cols()));
  }
  Matrix y(rows ? first.back() : parts[0].rows(), rows ? parts[0].cols() : first.back());
  MatrixView all = y.view();
  for (size_t i = 0; i < parts.size(); ++i) block(all, first[i], first[i + 1] - first[i]) = parts[i].value();
  return graph.record(std::move(y), parts, false, [nodes = nodesOf(parts), first, block](Matrix& dy, Backward& pass) {
    const ConstMatrixView whole = dy.values();
    for (size_t i = 0; i < nodes.size(); ++i) pass.addValue(nodes[i], block(whole, first[i], first[i + 1] - first[i]));
  });
}

}  // namespace

Variable concatenateColumns(Graph& graph, const std::vector<Variable>& parts) {
  return concatenate(graph, parts, false,
                     [](auto&& all, Index first, Index count) { return all.middleCols(first, count); });
}

Variable concatenateRows(Graph& graph, const std::vector<Variable>& parts) {
  return concatenate(graph, parts, true,
                     [](auto&& all, Index first, Index count) { return all.middleRows(first, count); });
}

Variable sliceColumns(Graph& graph, const Variable& x, Index first, Index count) {
  requireRange("first", first, 0, x.cols());
  requireRange("count", count, 0, x.cols() - first);
  Matrix y(x.rows(), count);
  y.view() = x.value().middleCols(first, count);
  return graph.record(std::move(y), {x}, false, [node = x.node(), first](Matrix& dy, Backward& pass) {
    pass.gradient(node).middleCols(first, dy.cols()) += dy.values();
  });
}

Variable gatherRows(Graph& graph, const Variable& x, std::vector<Index> indices) {
  Matrix y(static_cast<Index>(indices.size()), x.cols());
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= x.rows()) {
      throwInvalid(ErrorCode::kInvalidArgument, "indices", "a row in [0, " + std::to_string(x.rows()) + ")",
                   std::to_string(indices[i]));
    }
    y.view().row(static_cast<Index>(i)) = x.value().row(indices[i]);
  }
  return graph.record(std::move(y), {x}, false,
                      [node = x.node(), indices = std::move(indices)](Matrix& dy, Backward& pass) {
                        const Index width = dy.cols();
                        float* const out = pass.gradient(node).data();
                        addToRows(indices, dy.data(), width, 1, [&](Index row) { return out + row * width; });
                      });
}

Variable reshape(Graph& graph, const Variable& x, Index rows, Index columns) {
  if (rows == x.rows() && columns == x.cols()) return x;
  requireAtLeast("rows", rows, 0);
  requireAtLeast("columns", columns, 0);
  if (Shape{rows, columns}.size() != x.shared()->size()) {
    throwShapeMismatch("x", "as many elements as the new shape, " + Shape{rows, columns}.toString(),
                       Shape{x.rows(), x.cols()});
  }
  Matrix y(view(x.shared()->data(), rows, columns));
  return graph.record(std::move(y), {x}, false, [node = x.node()](Matrix& dy, Backward& pass) {
    pass.addValue(node, view(static_cast<const float*>(dy.data()), node->rows, node->columns));
  });
}

Variable addColumns(Graph& graph, const Variable& x, const Variable& part, Index first) {
  requireRange("first", first, 0, x.cols() - part.cols());
  requireRows("part", part.value(), x.rows());
  Matrix y(x.value());
  y.view().middleCols(first, part.cols()) += part.value();
  return graph.record(std::move(y), {x, part}, false,
                      [node = x.node(), part = part.node(), first, count = part.cols()](Matrix& dy, Backward& pass) {
                        pass.addValue(part, dy.values().middleCols(first, count));
                        pass.give(node, std::move(dy));
                      });
}

Variable scatterRows(Graph& graph, const Variable& x, std::vector<Index> indices, Index rows) {
  requireRows("x", x.value(), static_cast<Index>(indices.size()));
  Matrix y(rows, x.cols());
  y.view().setZero();
  for (size_t i = 0; i < indices.size(); ++i) {
    requireRange("indices", indices[i], 0, rows - 1);
    y.view().row(indices[i]) = x.value().row(static_cast<Index>(i));
  }
  return graph.record(std::move(y), {x}, false,
                      [node = x.node(), indices = std::move(indices)](Matrix& dy, Backward& pass) {
                        Matrix dx(static_cast<Index>(indices.size()), dy.cols());
                        for (size_t i = 0; i < indices.size(); ++i)
                          dx.view().row(static_cast<Index>(i)) = dy.values().row(indices[i]);
                        pass.give(node, std::move(dx));
                      });
}

Variable transpose(Graph& graph, const Variable& x) {
  Matrix y(x.cols(), x.rows());
  y.view() = x.value().transpose();
  return graph.record(std::move(y), {x}, false,
                      [node = x.node()](Matrix& dy, Backward& pass) { pass.addValue(node, dy.values().transpose()); });
}

Variable lookUp(Graph& graph, std::span<const TableRows> tables, Index width) {
  struct SavedTable {
    const void* key;
    std::vector<Index> rows;
    float scale;
    bool sparse;
  };
  std::vector<SavedTable> saved;
  bool trains = false;
  for (const TableRows& table : tables) {
    const void* key = table.storage ? static_cast<const void*>(table.storage) : table.plain;
    if (!graph.requiresGradient(key)) continue;
    trains = true;
    saved.push_back({key, {table.rows.begin(), table.rows.end()}, table.scale, table.sparse});
  }
  Matrix y(static_cast<Index>(tables.front().rows.size()), width);
  heed::lookUp(tables, y.view());
  return graph.record(std::move(y), {}, trains, [saved = std::move(saved), width](Matrix& dy, Backward& pass) {
    for (const SavedTable& table : saved) {
      // Makes the gradient dense, so that tableRow() returns rows of the dense gradient.
      if (!table.sparse) pass.addToParameter(table.key, [](MatrixView, Index) {});
      addToRows(table.rows, dy.data(), width, table.scale, [&](Index row) { return pass.tableRow(table.key, row); });
    }
  });
}

}  // namespace heed::train
