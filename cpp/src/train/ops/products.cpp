#include "train/ops/products.h"

#include <algorithm>

#include "gemm/gemm.h"
#include "gemm/weights/float32.h"
#include "train/ops/panel_products.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

/// out = dY W + residual, for W^T as a weight.
void multiply(ConstMatrixView gradient, const Float32Weight& transposed, MatrixView out,
              const ConstMatrixView* residual, Context& context) {
  Epilogue epilogue;
  if (residual) {
    epilogue.residual = residual->data();
    epilogue.residual_stride = residual->outerStride();
  }
  matmul(gradient, transposed, epilogue, out, context);
}

}  // namespace

void inputGradient(ConstMatrixView gradient, const PackedWeight& weight, MatrixView out,
                   const ConstMatrixView* residual, Context& context) {
  Float32Weight transposed(weight.in(), weight.out());
  transposed.writeTransposed(static_cast<const Float32Weight&>(weight));
  multiply(gradient, transposed, out, residual, context);
}

void inputGradient(ConstMatrixView gradient, ConstMatrixView weight, MatrixView out, const ConstMatrixView* residual,
                   Context& context) {
  Float32Weight transposed(weight.cols(), weight.rows());
  transposed.writeColumns(weight);
  multiply(gradient, transposed, out, residual, context);
}

void addWeightGradient(ConstMatrixView gradient, ConstMatrixView x, MatrixView out, Context& context) {
  const Arena::Scope scope(context.arena);
  addTransposedProduct(gradient, packPanels(x, context.arena), 0, out, context.arena);
}

void addBiasGradient(ConstMatrixView gradient, MatrixView out) {
  // Sums over many rows lose digits: rows are added in groups, then the groups are added.
  constexpr Index kGroup = 32;
  Matrix sums(1, gradient.cols());
  for (Index first = 0; first < gradient.rows(); first += kGroup) {
    const Index end = std::min(first + kGroup, gradient.rows());
    sums.view() = gradient.row(first);
    for (Index t = first + 1; t < end; ++t)
      accumulate(sums.cols(), gradient.data() + t * gradient.outerStride(), sums.data());
    accumulate(sums.cols(), sums.data(), out.data());
  }
}

}  // namespace heed::train
