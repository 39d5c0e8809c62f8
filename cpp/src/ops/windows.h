#pragma once

#include "heed/context.h"
#include "heed/evaluator.h"
#include "heed/tensor.h"

/// The windows of a convolution along a sequence with zero padding (torch.nn.Conv1d): their product with the weight
/// (out, E K) is the convolution. Notation: T rows of all sequences, E columns, K width of a window.
namespace heed {

/// The row ranges of all sequences' windows. Throws kShapeMismatch, naming x, for a sequence shorter than one window.
Sequences windowSequences(const Windows& windows, const Sequences& sequences);

/// output (windowSequences().totalRows(), E K): column e K + k of the row of window u is
/// x(u stride + k dilation - before, e), or 0 beyond the ends of the sequence. x (T, E). Throws kShapeMismatch.
void gatherWindows(ConstMatrixView x, const Sequences& sequences, const Windows& windows, MatrixView output);
/// The gradient of gatherWindows(): adds each element of `gathered` to the element of x from which it was copied.
void scatterWindows(ConstMatrixView gathered, const Sequences& sequences, const Windows& windows, MatrixView x);

}  // namespace heed
