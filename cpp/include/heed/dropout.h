#pragma once

#include "heed/random.h"
#include "heed/tensor.h"

namespace heed {

enum class DropoutScaling {
  kInverted,  ///< what is kept is divided by 1 - p, as frameworks do (Srivastava et al. 2014)
  kNone,      ///< the lecture's Z * X, Z Bernoulli(1 - p)
};

/// output = Z * x, each entry dropped with probability p in [0, 1). x and output may be the same.
void dropout(ConstMatrixView x, float p, DropoutScaling scaling, Generator& generator, MatrixView output);

}  // namespace heed
