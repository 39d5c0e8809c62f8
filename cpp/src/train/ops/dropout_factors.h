#pragma once

#include "heed/dropout.h"

namespace heed::train {

/// Dropout's factors for columns [first, first + count) of one row, where `first` is a multiple of 4: 0 where
/// DropoutRow::drops(), otherwise `kept`. The same draws in half the time.
void dropoutFactors(const DropoutKey& key, Index sequence, Index head, Index row, float p, float kept, Index first,
                    Index count, float* factors);

}  // namespace heed::train
