#pragma once

#include <vector>

#include "heed/train/matrix.h"

/// Rows scaled to unit norm, the input of cosine losses.
namespace heed::train {

struct UnitRows {
  Matrix rows;
  std::vector<float> lengths;  ///< the norms of the rows before scaling
};

/// As torch.nn.functional.normalize: rows with a norm below 1e-12 are divided by 1e-12.
UnitRows unitRowsOf(const Matrix& x);

/// Replaces the gradient du of the unit rows u by that of x: (du - (u du) u) / |x|.
void backThroughUnitRows(const UnitRows& units, Matrix& gradient);

}  // namespace heed::train
