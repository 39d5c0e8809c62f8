#pragma once

#include <vector>

#include "heed/train/graph.h"

/// Rows divided by their lengths, from which losses on cosines are computed.
namespace heed::train {

struct UnitRows {
  Matrix rows;
  std::vector<float> lengths;
};

/// As torch.nn.functional.normalize: rows shorter than 1e-12 are divided by that.
UnitRows unitRowsOf(const Matrix& x);

/// Replaces the gradient of the unit rows u by that of x: (du - (u du) u) / |x|.
void backThroughUnitRows(const UnitRows& units, Matrix& gradient);

}  // namespace heed::train
