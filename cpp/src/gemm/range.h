#pragma once

#include <algorithm>

#include "heed/tensor.h"

namespace heed {

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
