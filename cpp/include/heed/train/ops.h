#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "heed/dropout.h"
#include "heed/evaluator.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "heed/pooling.h"
#include "heed/positional_encoding.h"
#include "heed/table_rows.h"
#include "heed/train/graph.h"

/// Differentiable operations. Each computes the same result as the operation of the same name in inference, bit for
/// bit, and records its gradient. The formulas of both passes are at the top of src/ops/<operation>_backward.cpp or of
/// the operation's file in src/train/ops.
/// Notation: T rows, E columns, dX the gradient of X.
namespace heed::train {

/// y = a + b.
Variable add(Graph& graph, const Variable& a, const Variable& b);
/// y = a * b, element by element.
Variable multiply(Graph& graph, const Variable& a, const Variable& b);
/// y = factor x.
Variable scale(Graph& graph, const Variable& x, float factor);
/// The columns of all parts, side by side.
Variable concatenateColumns(Graph& graph, const std::vector<Variable>& parts);
/// The rows of all parts, one part after another.
Variable concatenateRows(Graph& graph, const std::vector<Variable>& parts);
/// Columns [first, first + count).
Variable sliceColumns(Graph& graph, const Variable& x, Index first, Index count);
/// The rows at `indices`, in that order. The gradients of repeated rows are summed. Also used for slicing and
/// reordering.
Variable gatherRows(Graph& graph, const Variable& x, std::vector<Index> indices);
/// The same elements as a (rows, columns) matrix.
Variable reshape(Graph& graph, const Variable& x, Index rows, Index columns);
/// x with `part` (T, n) added to its columns [first, first + n).
Variable addColumns(Graph& graph, const Variable& x, const Variable& part, Index first);
/// The sum of rows looked up in tables, see heed/table_rows.h. A table's gradient is found by the address of its
/// values, see ParameterGradients.
Variable lookUp(Graph& graph, std::span<const TableRows> tables, Index width);
/// X^T.
Variable transpose(Graph& graph, const Variable& x);
/// A matrix of `rows` rows whose row indices[i] is row i of x; all other rows are zeros. Indices must be distinct.
Variable scatterRows(Graph& graph, const Variable& x, std::vector<Index> indices, Index rows);
/// The windows of a convolution along each sequence (T, E width), see ops/windows.h.
Variable gatherWindows(Graph& graph, const Variable& x, const Sequences& sequences, const Windows& windows);
/// Pooling of each sequence of x (T, E) to one row (N, E), see heed/pooling.h.
Variable pool(Graph& graph, const Variable& x, const Sequences& sequences, std::vector<Index> skipped, Pooling pooling);
/// Each row divided by the maximum of its L2 norm and 1e-12 (torch.nn.functional.normalize).
Variable normalize(Graph& graph, const Variable& x);

/// phi(x). Saves x.
Variable activate(Graph& graph, const Variable& x, Activation activation);
/// The gated hidden layer phi(x[:, :F]) * x[:, F:] of x (T, 2F) (Shazeer 2020, arXiv:2002.05202); with `second`, it is
/// x[:, :F] * phi(x[:, F:]).
Variable gate(Graph& graph, const Variable& x, Activation activation, bool second = false);
/// Softmax of each row. dX = Y * (dY - rowsum(dY * Y)).
Variable softmax(Graph& graph, const Variable& x);
/// Dropout with the draws of `key`; see heed/dropout.h. Column c of x uses the draws of column `first_column` + c.
Variable dropout(Graph& graph, const Variable& x, const DropoutOptions& options, const DropoutKey& key,
                 Index first_column = 0);

/// phi(x W^T + b) with a layer's parameters. dX = dZ W, dW = dZ^T X, db = colsum(dZ), where Z is phi's argument.
Variable linear(Graph& graph, const Linear& layer, const Variable& x);
/// phi(x W^T + b) with weight (out, in) and bias (1, out); the bias may be an empty Variable.
Variable linear(Graph& graph, const Variable& x, const Variable& weight, const Variable& bias, Activation activation);

/// Layer norm or RMSNorm with a layer's parameters: of each row of x or, if x is wider than the layer, of each group of
/// normalized_shape columns. Saves x; the backward pass recomputes the rows' statistics.
Variable layerNorm(Graph& graph, const LayerNorm& layer, const Variable& x);
/// Layer norm with weight and bias (1, E); both may be empty Variables.
Variable layerNorm(Graph& graph, const Variable& x, const Variable& weight, const Variable& bias, float eps);
/// Multiplies the columns by a layer's factors.
Variable scaleColumns(Graph& graph, const LayerScale& layer, const Variable& x);
/// Batch norm. In training mode it normalizes with the mean and the biased variance of the batch's T rows and updates
/// the moving averages (with the unbiased variance, as in PyTorch); otherwise it uses the moving averages.
Variable batchNorm(Graph& graph, BatchNorm& layer, const Variable& x);

/// Rotates the queries or keys (T, H Dh) of all sequences; the first row of each has the position `first_position`. See
/// Rotary. The gradient is rotated back.
Variable rotate(Graph& graph, const std::shared_ptr<const Rotary>& rotary, const Variable& x,
                const Sequences& sequences, Index num_heads, Index first_position = 0);
/// Adds or appends positional encodings; a learned table gets a gradient.
Variable positionalEncoding(Graph& graph, const PositionalEncoding& layer, const Variable& x,
                            const Sequences& sequences);

}  // namespace heed::train
