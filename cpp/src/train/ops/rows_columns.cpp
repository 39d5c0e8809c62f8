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
#include "train/ops/sums.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

std::vector<std::shared_ptr<Node>> nodesOf(const std::vector<Variable>& parts) {
  std::vector<std::shared_ptr<Node>> nodes;
  nodes.reserve(parts.size());
  for (const Variable& part : parts) nodes.push_back(part.node());
  return nodes;
}

std::string nameOf(size_t part) { return "parts[" + std::to_string(part) + "]"; }

void requireParts(const std::vector<Variable>& parts) {
  if (parts.empty()) throwInvalid(ErrorCode::kInvalidArgument, "parts", "at least one", "an empty list");
}

}  // namespace

Variable concatenateColumns(Graph& graph, const std::vector<Variable>& parts) {
  requireParts(parts);
  Index columns = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    requireShape(nameOf(i).c_str(), parts[i].value(), parts[0].rows(), parts[i].cols());
    columns += parts[i].cols();
  }
  Matrix y(parts[0].rows(), columns);
  std::vector<Index> first = {0};
  for (const Variable& part : parts) {
    y.view().middleCols(first.back(), part.cols()) = part.value();
    first.push_back(first.back() + part.cols());
  }
  return graph.record(std::move(y), parts, false, [nodes = nodesOf(parts), first](Matrix& dy, Backward& pass) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      pass.add(nodes[i], [&](MatrixView out, const ConstMatrixView* residual) {
        write(out, residual, dy.values().middleCols(first[i], out.cols()));
      });
    }
  });
}

Variable concatenateRows(Graph& graph, const std::vector<Variable>& parts) {
  requireParts(parts);
  Index rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    requireShape(nameOf(i).c_str(), parts[i].value(), parts[i].rows(), parts[0].cols());
    rows += parts[i].rows();
  }
  Matrix y(rows, parts[0].cols());
  std::vector<Index> first = {0};
  for (const Variable& part : parts) {
    y.view().middleRows(first.back(), part.rows()) = part.value();
    first.push_back(first.back() + part.rows());
  }
  return graph.record(std::move(y), parts, false, [nodes = nodesOf(parts), first](Matrix& dy, Backward& pass) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      pass.add(nodes[i], [&](MatrixView out, const ConstMatrixView* residual) {
        write(out, residual, dy.values().middleRows(first[i], out.rows()));
      });
    }
  });
}

Variable sliceColumns(Graph& graph, const Variable& x, Index first, Index count) {
  requireRange("first", first, 0, x.cols());
  requireRange("count", count, 0, x.cols() - first);
  Matrix y(x.rows(), count);
  y.view() = x.value().middleCols(first, count);
  return graph.record(std::move(y), {x}, false, [node = x.node(), first](Matrix& dy, Backward& pass) {
    pass.add(node, [&](MatrixView out, const ConstMatrixView* residual) {
      if (!residual) out.setZero();
      out.middleCols(first, dy.cols()) += dy.values();
    });
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
                        pass.add(node, [&](MatrixView out, const ConstMatrixView* residual) {
                          if (!residual) out.setZero();
                          const Index width = out.cols();
                          addToRows(indices, dy.data(), width, 1, [&](Index row) { return out.data() + row * width; });
                        });
                      });
}

Variable reshape(Graph& graph, const Variable& x, Index rows, Index columns) {
  if (rows == x.rows() && columns == x.cols()) return x;
  requireAtLeast("rows", rows, 0);
  requireAtLeast("columns", columns, 0);
  if (Shape{rows, columns}.size() != sizeOf(*x.shared())) {
    throwShapeMismatch("x", "as many elements as the new shape, " + Shape{rows, columns}.toString(),
                       Shape{x.rows(), x.cols()});
  }
  Matrix y(view(x.shared()->data(), rows, columns));
  return graph.record(std::move(y), {x}, false, [node = x.node()](Matrix& dy, Backward& pass) {
    pass.add(node, [&](MatrixView out, const ConstMatrixView* residual) {
      write(out, residual, view(static_cast<const float*>(dy.data()), out.rows(), out.cols()));
    });
  });
}

Variable addColumns(Graph& graph, const Variable& x, const Variable& part, Index first) {
  requireRange("first", first, 0, x.cols() - part.cols());
  requireRows("part", part.value(), x.rows());
  Matrix y(x.value());
  y.view().middleCols(first, part.cols()) += part.value();
  return graph.record(std::move(y), {x, part}, false,
                      [node = x.node(), part = part.node(), first](Matrix& dy, Backward& pass) {
                        pass.add(part, [&](MatrixView out, const ConstMatrixView* residual) {
                          write(out, residual, dy.values().middleCols(first, out.cols()));
                        });
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
  return graph.record(std::move(y), {x}, false, [node = x.node()](Matrix& dy, Backward& pass) {
    pass.add(node,
             [&](MatrixView out, const ConstMatrixView* residual) { write(out, residual, dy.values().transpose()); });
  });
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
