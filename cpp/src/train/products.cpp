#include "train/products.h"

#include "gemm/gemm.h"
#include "gemm/weights/float32.h"

namespace heed::train {
namespace {

/// out = a b + residual for b (K, M) as it is stored in memory.
void multiply(ConstMatrixView a, ConstMatrixView b, MatrixView out, const ConstMatrixView* residual, Context& context) {
  Float32Weight packed(b.cols(), b.rows());
  packed.writeColumns(b);
  Epilogue epilogue;
  if (residual) {
    epilogue.residual = residual->data();
    epilogue.residual_stride = residual->outerStride();
  }
  matmul(a, packed, epilogue, out, context);
}

}  // namespace

void inputGradient(ConstMatrixView gradient, ConstMatrixView weight, MatrixView out, const ConstMatrixView* residual,
                   Context& context) {
  multiply(gradient, weight, out, residual, context);
}

void addWeightGradient(ConstMatrixView gradient, ConstMatrixView x, MatrixView out, Context& context) {
  const Arena::Scope scope(context.arena);
  MatrixView transposed = context.arena.matrix(gradient.cols(), gradient.rows());
  transposed = gradient.transpose();
  const ConstMatrixView before = readOnly(out);
  multiply(readOnly(transposed), x, out, &before, context);
}

void addBiasGradient(ConstMatrixView gradient, MatrixView out) { out.row(0) += gradient.colwise().sum(); }

}  // namespace heed::train
