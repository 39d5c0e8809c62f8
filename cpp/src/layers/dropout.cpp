#include "heed/dropout.h"

namespace heed {

void dropout(ConstMatrixView x, float p, DropoutScaling scaling, Generator& generator, MatrixView output) {
  const float kept = scaling == DropoutScaling::kInverted ? 1 / (1 - p) : 1;
  for (Index t = 0; t < x.rows(); ++t) {
    for (Index e = 0; e < x.cols(); ++e) output(t, e) = generator.uniform() < p ? 0 : x(t, e) * kept;
  }
}

}  // namespace heed
