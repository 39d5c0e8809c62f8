#pragma once

#include "heed/train/graph.h"

/// The matrix products of backward passes, by the kernels of inference.
/// Notation: X (T, K), W (M, K), Y = X W^T (T, M), dY its gradient.
namespace heed {

class PackedWeight;

}  // namespace heed

namespace heed::train {

/// out (T, K) = dY W + residual, which is null or `out` itself. A packed weight must be fp32.
void inputGradient(ConstMatrixView gradient, const PackedWeight& weight, MatrixView out,
                   const ConstMatrixView* residual, Context& context);
void inputGradient(ConstMatrixView gradient, ConstMatrixView weight, MatrixView out, const ConstMatrixView* residual,
                   Context& context);
/// out (M, K) += dY^T X.
void addWeightGradient(ConstMatrixView gradient, ConstMatrixView x, MatrixView out, Context& context);
/// out (1, M) += the sum of the rows of dY.
void addBiasGradient(ConstMatrixView gradient, MatrixView out);

}  // namespace heed::train
