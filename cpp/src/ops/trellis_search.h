#pragma once

#include "core/trellis.h"
#include "heed/arena.h"

namespace heed {

/// Finds the numbers of a sequence (core/trellis.h) with the minimum of sum_k (targets[k] - steps[k] level(state_k))^2
/// by the Viterbi algorithm. `steps`: the products of the scales. Writes the states. The lowest `bits` bits of a state
/// are the number. Throws kInvalidArgument unless `bits` is 2, 3 or 4 and `length` is not negative. All builds find the
/// same states. Takes scratch memory of 4 `length` << (13 - bits) bytes.
void trellisSearch(int bits, Index length, const float* targets, const float* steps, uint16_t* states, Arena& arena);

}  // namespace heed
