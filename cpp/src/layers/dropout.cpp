#include "heed/dropout.h"

#include "check.h"

namespace heed {

void dropout(ConstMatrixView x, float p, DropoutScaling scaling, Generator& generator, MatrixView output) {
  requireRate("p", p);
  requireShape("output", readOnly(output), x.rows(), x.cols());
  const float kept = scaling == DropoutScaling::kInverted ? 1 / (1 - p) : 1;
  for (Index t = 0; t < x.rows(); ++t) {
    for (Index e = 0; e < x.cols(); ++e) output(t, e) = generator.uniform() < p ? 0 : x(t, e) * kept;
  }
}

Dropout::Dropout(const DropoutOptions& options) : options_(options), generator_(0) { requireRate("p", options.p); }

void Dropout::forward(ConstMatrixView x, MatrixView output) {
  if (active()) return dropout(x, options_.p, options_.scaling, generator_, output);
  requireShape("output", readOnly(output), x.rows(), x.cols());
  if (output.data() != x.data()) output = x;
}

}  // namespace heed
