/// Pooling of a sequence's rows to one vector: y = sum_i w_i x_i / sum_i w_i, and variants.
#include "heed/pooling.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace heed {
namespace {

/// In the order of Pooling.
constexpr std::string_view kNames[] = {"mean", "cls", "last", "max", "mean_sqrt_len", "weighted_mean"};

/// Row n of output = sum w_i x_i / divisor, added row by row, so that the result does not depend on how Eigen splits
/// sums.
template <class Weight>
void weigh(ConstMatrixView hidden, Index begin, Index end, Weight weight, float divisor, MatrixView output, Index n) {
  auto vector = output.row(n);
  vector = weight(begin) * hidden.row(begin);
  for (Index i = begin + 1; i < end; ++i) vector += weight(i) * hidden.row(i);
  vector /= divisor;
}

/// The larger of two, or NaN if either is.
constexpr auto kLargerOrNaN = [](float a, float b) { return a > b || std::isnan(a) ? a : b; };

}  // namespace

Pooling poolingNamed(std::string_view name) { return static_cast<Pooling>(indexOfName("pooling", name, kNames)); }

void pool(ConstMatrixView hidden, const Sequences& sequences, std::span<const Index> skipped, Pooling pooling,
          MatrixView output) {
  if (!skipped.empty() && static_cast<Index>(skipped.size()) != sequences.count())
    refuse(ErrorCode::kShapeMismatch, "skipped", std::to_string(sequences.count()) + " counts, one per text",
           std::to_string(skipped.size()));
  for (Index n = 0; n < sequences.count(); ++n) {
    const Index first = sequences.begin(n), end = sequences.end(n);
    const Index skip = skipped.empty() ? 0 : std::clamp<Index>(skipped[static_cast<size_t>(n)], 0, end - first);
    const Index begin = first + skip, length = end - begin;
    if (pooling == Pooling::kCls ? first == end : length == 0) {
      output.row(n).setZero();
      continue;
    }
    const auto one = [](Index) { return 1.0f; };
    switch (pooling) {
      case Pooling::kMean:
        weigh(hidden, begin, end, one, static_cast<float>(length), output, n);
        break;
      case Pooling::kCls:
        output.row(n) = hidden.row(first);
        break;
      case Pooling::kLast:
        output.row(n) = hidden.row(end - 1);
        break;
      case Pooling::kMax:
        output.row(n) = hidden.row(begin);
        for (Index i = begin + 1; i < end; ++i) output.row(n) = output.row(n).binaryExpr(hidden.row(i), kLargerOrNaN);
        break;
      case Pooling::kMeanSqrtLength:
        weigh(hidden, begin, end, one, std::sqrt(static_cast<float>(length)), output, n);
        break;
      case Pooling::kWeightedMean: {
        const auto position = [first](Index i) { return static_cast<float>(i - first + 1); };
        // The sum of skip + 1 .. end - first; in double, because the sum over 46,341 tokens exceeds 32 bits.
        const double sum = static_cast<double>(skip + 1 + end - first) * static_cast<double>(length) / 2;
        weigh(hidden, begin, end, position, static_cast<float>(sum), output, n);
        break;
      }
    }
  }
}

}  // namespace heed
