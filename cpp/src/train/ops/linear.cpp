/// Y = phi(Z), Z = X W^T + b. Backward, with dZ = dY * phi'(Z): dX = dZ W, dW = dZ^T X, db = colsum(dZ).
#include "core/check.h"
#include "gemm/gemm.h"
#include "gemm/weights/packed_weight.h"
#include "heed/train/ops.h"
#include "train/products.h"

namespace heed::train {
namespace {

void requireFloat32(const Linear& layer) {
  if (layer.options().precision != Precision::kFloat32)
    refuse(ErrorCode::kUnsupported, "dtype", "fp32 weights, because int8 weights cannot be trained", "int8 weights");
}

/// A copy of a layer's weight (out, in), row-major.
MatrixView unpacked(const Linear& layer, Context& context) {
  const LinearOptions& o = layer.options();
  MatrixView weight = context.arena.matrix(o.out_features, o.in_features);
  layer.weight().read(0, o.out_features, weight.data());
  return weight;
}

}  // namespace

Variable linear(Graph& graph, const Linear& layer, const Variable& x) {
  requireFloat32(layer);
  const LinearOptions& o = layer.options();
  requireShape("x", x.value(), x.rows(), o.in_features);
  // phi is an operation of its own, so that its argument is kept and not its result.
  Matrix z(x.rows(), o.out_features);
  matmul(x.value(), layer.weight(), {.bias = layer.bias()}, z.view(), graph.context());
  const RowStorage* weight = &layer.weight();
  const bool trains = graph.requiresGradient(weight) || (layer.bias() && graph.requiresGradient(layer.bias()));
  // X is kept only if the weight's gradient needs it.
  const auto kept = graph.requiresGradient(weight) ? x.shared() : nullptr;
  const Variable result =
      graph.record(std::move(z), {x}, trains, [&layer, kept, input = x.node()](Matrix& dz, Backward& pass) {
        Context& context = pass.context();
        pass.add(input, [&](MatrixView out, const ConstMatrixView* residual) {
          const Arena::Scope scope(context.arena);
          inputGradient(dz.values(), readOnly(unpacked(layer, context)), out, residual, context);
        });
        if (kept) {
          pass.addToParameter(static_cast<const RowStorage*>(&layer.weight()),
                              [&](MatrixView dw) { addWeightGradient(dz.values(), kept->values(), dw, context); });
        }
        // Vectors are stored as one column.
        pass.addToParameter(layer.bias(),
                            [&](MatrixView db) { addBiasGradient(dz.values(), heed::view(db.data(), 1, db.size())); });
      });
  return o.activation == Activation::kIdentity ? result : activate(graph, result, o.activation);
}

}  // namespace heed::train
