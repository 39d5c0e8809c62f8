#pragma once

#include "heed/context.h"
#include "heed/tensor.h"

/// The windows of a convolution along a sequence with zero padding (torch.nn.Conv1d with padding (K - 1) / 2): their
/// product with the weight (out, E K) is the convolution. Notation: T rows of all sequences, E columns, K width of a
/// window.
namespace heed {

/// windows (T, E K): column e K + k of row t is x(t + k - (K - 1) / 2, e), or 0 beyond the ends of the row's sequence.
/// x (T, E); K is odd. Throws kShapeMismatch.
void gatherWindows(ConstMatrixView x, const Sequences& sequences, Index width, MatrixView windows);
/// The gradient of gatherWindows(): adds each element of `windows` to the element of x from which it was copied.
void scatterWindows(ConstMatrixView windows, const Sequences& sequences, Index width, MatrixView x);

}  // namespace heed
