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
#include "heed/train/graph.h"

/// Differentiable operations. Those that Evaluator declares under the same name (heed/evaluator.h) compute the same
/// result as in inference, bit for bit, and record its gradient. The formulas of both passes are at the top of
/// src/ops/<operation>_backward.cpp or of the operation's file in src/train/ops.
/// Notation: T rows, E columns, dX the gradient of X.
namespace heed::train {

Variable add(Graph& graph, const Variable& a, const Variable& b);
Variable multiply(Graph& graph, const Variable& a, const Variable& b);
Variable scale(Graph& graph, const Variable& x, float factor);
Variable concatenateRows(Graph& graph, const std::vector<Variable>& parts);
Variable reshape(Graph& graph, const Variable& x, Index rows, Index columns);
Variable addColumns(Graph& graph, const Variable& x, const Variable& part, Index first);
/// A table's gradient is found by the address of its values, see ParameterGradients.
Variable lookUp(Graph& graph, std::span<const TableRows> tables, Index width);
Variable transpose(Graph& graph, const Variable& x);
Variable gatherWindows(Graph& graph, const Variable& x, const Sequences& sequences, const Windows& windows);
/// Gradients of repeated rows are summed.
Variable gatherRows(Graph& graph, const Variable& x, std::vector<Index> indices);
Variable activate(Graph& graph, const Variable& x, Activation activation);
Variable gate(Graph& graph, const Variable& x, Activation activation, bool second = false);
Variable softmax(Graph& graph, const Variable& x);
Variable dropout(Graph& graph, const Variable& x, const DropoutOptions& options, const DropoutKey& key,
                 Index first_column = 0);
Variable linear(Graph& graph, const Linear& layer, const Variable& x);
Variable product(Graph& graph, const Linear& layer, const Variable& x);
/// linear() for several layers; x is packed only once.
std::vector<Variable> linearsOf(Graph& graph, std::span<const Linear* const> layers, const Variable& x);
Variable linear(Graph& graph, const Variable& x, const Variable& weight, const Variable& bias, Activation activation);
/// Evaluator::normalize() and Evaluator::layerNorm(). The backward pass recomputes the rows' statistics.
Variable layerNorm(Graph& graph, const LayerNorm& layer, const Variable& x);
Variable layerNorm(Graph& graph, const Variable& x, const Variable& weight, const Variable& bias, float eps);
Variable scaleColumns(Graph& graph, const LayerScale& layer, const Variable& x);
/// In training mode it normalizes with the mean and the biased variance of the batch's T rows and updates the moving
/// averages (with the unbiased variance, as in PyTorch); otherwise it uses the moving averages.
Variable batchNorm(Graph& graph, BatchNorm& layer, const Variable& x);
Variable rotate(Graph& graph, const std::shared_ptr<const Rotary>& rotary, const Variable& x,
                const Sequences& sequences, Index num_heads, Index first_position = 0);
/// Evaluator::encodePositions(). A learned table gets a gradient.
Variable positionalEncoding(Graph& graph, const PositionalEncoding& layer, const Variable& x,
                            const Sequences& sequences);

/// The columns of all parts, side by side.
Variable concatenateColumns(Graph& graph, const std::vector<Variable>& parts);
/// Columns [first, first + count).
Variable sliceColumns(Graph& graph, const Variable& x, Index first, Index count);
/// A matrix of `rows` rows whose row indices[i] is row i of x; all other rows are zeros. Indices must be distinct.
Variable scatterRows(Graph& graph, const Variable& x, std::vector<Index> indices, Index rows);
/// Pooling of each sequence of x (T, E) to one row (N, E), see heed/pooling.h.
Variable pool(Graph& graph, const Variable& x, const Sequences& sequences, std::vector<Index> skipped, Pooling pooling);
/// Each row divided by the maximum of its L2 norm and 1e-12 (torch.nn.functional.normalize).
Variable normalize(Graph& graph, const Variable& x);

/// Throws kUnsupported for a layer whose weights are not fp32.
void requireTrainable(const Linear& layer);

}  // namespace heed::train
