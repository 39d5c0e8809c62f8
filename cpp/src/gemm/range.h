#pragma once

#include <algorithm>

#include "heed/tensor.h"

namespace heed {

/// The maximum number of products or terms that are added one after the other in fp32. Longer sums are cut into blocks
/// of this length, whose results are added, because the rounding error of a sum grows with the length of its chain: n
/// terms are off by at most (kChain + n / kChain) 2^-24 sum |term|. The cost is one more addition per block.
inline constexpr Index kChain = 512;

/// Consecutive rows, columns or values of k [begin, end).
struct Range {
  Index begin, end;
  Index count() const { return end - begin; }
};

/// Rows of a matrix in ascending order: `indices`, or the first `count` if that is null.
struct RowList {
  const Index* indices;
  Index count;

  Index operator[](Index i) const { return indices ? indices[i] : i; }
  /// How many of them lie before row `row`.
  Index before(Index row) const {
    return indices ? std::lower_bound(indices, indices + count, row) - indices : std::min(row, count);
  }
};

}  // namespace heed
