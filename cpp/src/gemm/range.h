#pragma once

#include <algorithm>

#include "heed/tensor.h"

namespace heed {

/// The maximum number of terms that are added one after the other in fp32. Longer sums are split into chains of this
/// length, whose results are added, because the rounding error of a sum grows with the length of its chain. The error
/// of n terms is then at most (kSumBlock + n / kSumBlock) 2^-24 sum |term|. The cost is one more addition per chain.
inline constexpr Index kSumBlock = 512;

/// A range [begin, end) of rows, columns or values of k.
struct Range {
  Index begin, end;
  Index count() const { return end - begin; }
};

/// Rows of a matrix in ascending order: `indices`, or the first `count` if that is null.
struct RowList {
  const Index* indices;
  Index count;

  Index operator[](Index i) const { return indices ? indices[i] : i; }
  /// The number of listed rows before row `row`.
  Index before(Index row) const {
    return indices ? std::lower_bound(indices, indices + count, row) - indices : std::min(row, count);
  }
};

}  // namespace heed
