/// Pooling of a sequence's rows to one vector: y = sum_i w_i x_i / sum_i w_i, and variants.
#include "heed/pooling.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "gemm/range.h"

namespace heed {
namespace {

/// In the order of Pooling.
constexpr std::string_view kPoolingNames[] = {"mean", "cls", "last", "max", "mean_sqrt_len", "weighted_mean"};

/// y (E) = sum w_i x_i / divisor over the rows x_i, i = 0, 1, ..., where w_i is 1 if `first_weight` is 0, otherwise
/// `first_weight` + i. Rows are added one by one in blocks of kSumBlock rows, so that the result does not depend on how
/// Eigen splits sums.
void weightedSum(ConstMatrixView x, Index first_weight, float divisor, float* y) {
  constexpr Index kColumns = 64;
  const auto weight = [first_weight](Index i) {
    return first_weight == 0 ? 1.0f : static_cast<float>(first_weight + i);
  };
  for (Index column = 0; column < x.cols(); column += kColumns) {
    const Index width = std::min(kColumns, x.cols() - column);
    float total[kColumns], sum[kColumns];
    for (Index first = 0; first < x.rows(); first += kSumBlock) {
      float* const to = first == 0 ? total : sum;
      for (Index i = first; i < std::min(first + kSumBlock, x.rows()); ++i) {
        const float* row = x.data() + i * x.outerStride() + column;
        const float w = weight(i);
        for (Index c = 0; c < width; ++c) to[c] = i == first ? w * row[c] : to[c] + w * row[c];
      }
      for (Index c = 0; first > 0 && c < width; ++c) total[c] += sum[c];
    }
    for (Index c = 0; c < width; ++c) y[column + c] = total[c] / divisor;
  }
}

/// The larger of two numbers, or NaN if either is NaN.
constexpr auto kLargerOrNaN = [](float a, float b) { return a > b || std::isnan(a) ? a : b; };

}  // namespace

Pooling poolingNamed(std::string_view name) {
  return static_cast<Pooling>(indexOfName("pooling", name, kPoolingNames));
}

void pool(ConstMatrixView hidden, const Sequences& sequences, std::span<const Index> skipped, Pooling pooling,
          MatrixView output) {
  if (!skipped.empty() && static_cast<Index>(skipped.size()) != sequences.count())
    throwInvalid(ErrorCode::kShapeMismatch, "skipped", std::to_string(sequences.count()) + " counts, one per text",
                 std::to_string(skipped.size()));
  for (Index n = 0; n < sequences.count(); ++n) {
    const Index first = sequences.begin(n), end = sequences.end(n);
    const Index skip = skipped.empty() ? 0 : std::clamp<Index>(skipped[static_cast<size_t>(n)], 0, end - first);
    const Index begin = first + skip, length = end - begin;
    if (pooling == Pooling::kCls ? first == end : length == 0) {
      output.row(n).setZero();
      continue;
    }
    const ConstMatrixView rows =
        view(hidden.data() + begin * hidden.outerStride(), length, hidden.cols(), hidden.outerStride());
    float* const vector = output.row(n).data();
    switch (pooling) {
      case Pooling::kMean:
        weightedSum(rows, 0, static_cast<float>(length), vector);
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
        weightedSum(rows, 0, std::sqrt(static_cast<float>(length)), vector);
        break;
      case Pooling::kWeightedMean: {
        // The sum of all integers in [skip + 1, end - first]. In double, because the product overflows a 32-bit Index
        // from 46,341 tokens on.
        const double sum = static_cast<double>(skip + 1 + end - first) * static_cast<double>(length) / 2;
        weightedSum(rows, skip + 1, static_cast<float>(sum), vector);
        break;
      }
    }
  }
}

}  // namespace heed
