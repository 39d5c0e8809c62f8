#pragma once

#include <span>

#include "gemm/range.h"

namespace heed {

/// Softmax without its division: x <- e^(x - max) for `count` floats in place, where subtracting the maximum avoids
/// overflow. Returns the sum, which is 0 if all entries are -infinity (a query whose keys are all masked). NaN stays
/// NaN. The sum is that of eight chains; every 8 kChain entries, they are added to a sum in double precision.
float exponentials(float* x, Index count);
/// The same for entries that are those of a longer row in `positions`, which are ascending and begin at multiples of 8;
/// entries after the last position are -infinity. Leaving out an entry that is -infinity changes no bit of the sum.
float exponentials(float* x, Index count, std::span<const Range> positions);

/// Softmax: x <- e^(x - max) / sum, in place; all zeros if all entries are -infinity.
void softmaxRow(float* x, Index count);

}  // namespace heed
