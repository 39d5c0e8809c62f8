#include "ops/windows.h"

#include "core/check.h"

namespace heed {
namespace {

/// Calls f(t, k, from) for each window t and each k whose row `from` = t + k - (K - 1) / 2 is in the same sequence.
template <class F>
void forEachRow(const Sequences& sequences, Index width, const F& f) {
  const Index reach = (width - 1) / 2;
  for (Index n = 0; n < sequences.count(); ++n) {
    for (Index t = sequences.begin(n); t < sequences.end(n); ++t) {
      for (Index k = 0; k < width; ++k) {
        const Index from = t + k - reach;
        if (from >= sequences.begin(n) && from < sequences.end(n)) f(t, k, from);
      }
    }
  }
}

}  // namespace

void gatherWindows(ConstMatrixView x, const Sequences& sequences, Index width, MatrixView windows) {
  requireShape("x", x, sequences.totalRows(), x.cols());
  requireShape("windows", readOnly(windows), x.rows(), x.cols() * width);
  windows.setZero();
  forEachRow(sequences, width, [&](Index t, Index k, Index from) {
    const float* row = x.data() + from * x.outerStride();
    float* out = windows.data() + t * windows.outerStride() + k;
    for (Index e = 0; e < x.cols(); ++e) out[e * width] = row[e];
  });
}

void scatterWindows(ConstMatrixView windows, const Sequences& sequences, Index width, MatrixView x) {
  requireShape("x", readOnly(x), sequences.totalRows(), x.cols());
  requireShape("windows", windows, x.rows(), x.cols() * width);
  forEachRow(sequences, width, [&](Index t, Index k, Index from) {
    const float* row = windows.data() + t * windows.outerStride() + k;
    float* out = x.data() + from * x.outerStride();
    for (Index e = 0; e < x.cols(); ++e) out[e] += row[e * width];
  });
}

}  // namespace heed
