#include "ops/windows.h"

#include <cstdint>
#include <limits>

#include "core/check.h"

namespace heed {
namespace {

/// Calls f(row, k, from) for each row of a window and each k whose row of x is in the same sequence.
template <class F>
void forEachRow(const Sequences& sequences, const Windows& windows, const F& f) {
  Index row = 0;
  for (Index n = 0; n < sequences.count(); ++n) {
    const Index count = windows.count(sequences.length(n));
    for (Index u = 0; u < count; ++u, ++row) {
      for (Index k = 0; k < windows.width; ++k) {
        const Index from = sequences.begin(n) + u * windows.stride + k * windows.dilation - windows.before;
        if (from >= sequences.begin(n) && from < sequences.end(n)) f(row, k, from);
      }
    }
  }
}

}  // namespace

Index Windows::count(Index length) const {
  constexpr int64_t kMost = std::numeric_limits<Index>::max();
  const int64_t padded = int64_t{length} + before + after, span = int64_t{dilation} * (width - 1) + 1;
  if (padded > kMost)
    throwInvalid(ErrorCode::kInvalidArgument, "padding", "at most " + std::to_string(kMost) + " rows with the padding",
                 std::to_string(padded));
  return padded < span || length == 0 ? 0 : static_cast<Index>((padded - span) / stride) + 1;
}

Sequences windowSequences(const Windows& windows, const Sequences& sequences) {
  std::vector<Index> counts;
  for (Index n = 0; n < sequences.count(); ++n) {
    counts.push_back(windows.count(sequences.length(n)));
    if (counts.back() > 0 || sequences.length(n) == 0) continue;
    const Index span = windows.dilation * (windows.width - 1) + 1 - windows.before - windows.after;
    throwInvalid(ErrorCode::kShapeMismatch, "x", "at least " + std::to_string(span) + " rows, the span of the kernel",
                 std::to_string(sequences.length(n)));
  }
  return Sequences::ofLengths(counts);
}

void gatherWindows(ConstMatrixView x, const Sequences& sequences, const Windows& windows, MatrixView output) {
  requireShape("x", x, sequences.totalRows(), x.cols());
  requireColumns("windows", readOnly(output), x.cols() * windows.width);
  output.setZero();
  forEachRow(sequences, windows, [&](Index row, Index k, Index from) {
    const float* values = x.data() + from * x.outerStride();
    float* out = output.data() + row * output.outerStride() + k;
    for (Index e = 0; e < x.cols(); ++e) out[e * windows.width] = values[e];
  });
}

void scatterWindows(ConstMatrixView gathered, const Sequences& sequences, const Windows& windows, MatrixView x) {
  requireShape("x", readOnly(x), sequences.totalRows(), x.cols());
  requireColumns("windows", gathered, x.cols() * windows.width);
  forEachRow(sequences, windows, [&](Index row, Index k, Index from) {
    const float* values = gathered.data() + row * gathered.outerStride() + k;
    float* out = x.data() + from * x.outerStride();
    for (Index e = 0; e < x.cols(); ++e) out[e] += values[e * windows.width];
  });
}

}  // namespace heed
