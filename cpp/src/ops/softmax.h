#pragma once

#include <span>

#include "gemm/range.h"

namespace heed {

/// Softmax without its division: x <- e^(x - max) for `count` floats in place; subtracting the maximum avoids overflow.
/// Returns the sum, which is 0 if all entries are -infinity (a query whose keys are all masked). NaN stays NaN. Eight
/// chains are summed in fp32; after every 8 kSumBlock entries they are added to a sum in double precision.
float exponentials(float* x, Index count);
/// exponentials() for a part of a longer row: x holds the entries in `positions`, ascending ranges that begin at
/// multiples of 8. Entries after the last position must be -infinity. Omitting an entry that is -infinity does not
/// change a bit of the sum.
float exponentials(float* x, Index count, std::span<const Range> positions);

/// Softmax: x <- e^(x - max) / sum, in place; all zeros if all entries are -infinity.
void softmaxRow(float* x, Index count);

}  // namespace heed
