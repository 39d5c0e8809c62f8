/// Y = phi(Z), Z = X W^T + b. Backward, with dZ = dY * phi'(Z): dX = dZ W, dW = dZ^T X, db = colsum(dZ).
#include "core/check.h"
#include "gemm/gemm.h"
#include "gemm/gradient_products.h"
#include "gemm/weights/packed_weight.h"
#include "heed/train/graph.h"
#include "heed/train/ops.h"
#include "train/ops/sums.h"

namespace heed::train {
namespace {

ConstMatrixView columnsOf(const Matrix& m, Index first, Index count) {
  return heed::view(m.data() + first, m.rows(), count, m.cols());
}

/// out (number of columns) += the sum of the rows.
void addColumnSums(ConstMatrixView rows, float* out) {
  RowSum sum(rows.cols());
  sum.add(rows);
  sum.addTo(out);
}

/// Records Z = X W^T + b.
Variable recordLinear(Graph& graph, const Linear& layer, const Variable& x, Matrix z) {
  const RowStorage* weight = &layer.weight();
  const bool trains = graph.requiresGradient(weight) || (layer.bias() && graph.requiresGradient(layer.bias()));
  // X is saved only if the weight's gradient needs it.
  const SavedVariable saved = graph.requiresGradient(weight) ? SavedVariable(x) : SavedVariable();
  const auto backward = [&layer, saved, input = x.node()](Matrix& dz, Backward& pass) {
    Context& context = pass.context();
    if (saved) {
      const auto in = saved.value();
      pass.addToParameter(static_cast<const RowStorage*>(&layer.weight()), [&](MatrixView dw, Index first) {
        addWeightGradient(columnsOf(dz, first, dw.rows()), in->values(), dw, context);
      });
    }
    // Vectors are stored as one column.
    pass.addToParameter(layer.bias(),
                        [&](MatrixView db, Index first) { addColumnSums(columnsOf(dz, first, db.rows()), db.data()); });
    // Done last, when a recomputed X has been freed.
    pass.add(input, [&](MatrixView out, const ConstMatrixView* residual) {
      inputGradient(dz.values(), layer.weight(), out, residual, context);
    });
  };
  return graph.record(std::move(z), {x}, trains, backward);
}

}  // namespace

void requireTrainable(const Linear& layer) {
  if (layer.options().precision != Precision::kFloat32)
    throwInvalid(ErrorCode::kUnsupported, "dtype", "fp32 weights (int8 weights cannot be trained)", "int8 weights");
}

Variable product(Graph& graph, const Linear& layer, const Variable& x) {
  requireTrainable(layer);
  requireShape("x", x.value(), x.rows(), layer.options().in_features);
  Matrix z(x.rows(), layer.options().out_features);
  matmul(x.value(), layer.weight(), {.bias = layer.bias()}, z.view(), graph.context());
  return recordLinear(graph, layer, x, std::move(z));
}

Variable linear(Graph& graph, const Linear& layer, const Variable& x) {
  // phi is recorded as a separate operation, so that its argument is saved instead of its result.
  return activate(graph, product(graph, layer, x), layer.options().activation);
}

std::vector<Variable> linearsOf(Graph& graph, std::span<const Linear* const> layers, const Variable& x) {
  std::vector<Matrix> values;
  std::vector<Product> products;
  for (const Linear* layer : layers) {
    requireTrainable(*layer);
    requireShape("x", x.value(), x.rows(), layer->options().in_features);
    values.emplace_back(x.rows(), layer->options().out_features);
    products.push_back({&layer->weight(), {.bias = layer->bias()}, values.back().view()});
  }
  matmul(x.value(), products, graph.context());
  std::vector<Variable> results;
  results.reserve(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    results.push_back(
        activate(graph, recordLinear(graph, *layers[i], x, std::move(values[i])), layers[i]->options().activation));
  }
  return results;
}

Variable linear(Graph& graph, const Variable& x, const Variable& weight, const Variable& bias, Activation activation) {
  const Index out_features = weight.rows();
  if (bias) requireShape("bias", bias.value(), 1, out_features);
  Matrix z(x.rows(), out_features);
  heed::linear(x.value(), weight.value(), bias ? bias.shared()->data() : nullptr, Activation::kIdentity, z.view(),
               graph.context());
  // Each factor is saved only if the gradient of the other needs it.
  const SavedVariable saved_x = weight.needsGradient() ? SavedVariable(x) : SavedVariable();
  const auto saved_weight = x.needsGradient() ? weight.shared() : nullptr;
  const Variable result = graph.record(
      std::move(z), {x, weight, bias}, false,
      [saved_x, saved_weight, x = x.node(), weight = weight.node(), bias = bias.node()](Matrix& dz, Backward& pass) {
        Context& context = pass.context();
        pass.add(x, [&](MatrixView out, const ConstMatrixView* residual) {
          inputGradient(dz.values(), saved_weight->values(), out, residual, context);
        });
        if (weight) addWeightGradient(dz.values(), saved_x.value()->values(), pass.gradient(weight), context);
        if (bias) addColumnSums(dz.values(), pass.gradient(bias).data());
      });
  return activate(graph, result, activation);
}

}  // namespace heed::train
