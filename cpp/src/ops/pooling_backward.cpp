/// Pooling to one row per sequence (weighted sums and maxima), and normalization of rows to unit norm:
///
///   y = sum w_i x_i / d      dx_i = w_i / d dy
///   y = max x_i              dx_i = dy where x_i is the maximum (the first one if there are ties), otherwise 0
///   y = x / n                dx = (dy - y (y . dy)) / n, or dy / n if |x| < 1e-12, where n = max(|x|, 1e-12)
#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "heed/train/ops.h"

namespace heed::train {
namespace {

/// The rows of sequence n that are pooled.
struct PooledRows {
  Index first, begin, end;

  PooledRows(const Sequences& sequences, const std::vector<Index>& skipped, Index n)
      : first(sequences.begin(n)), begin(first), end(sequences.end(n)) {
    if (!skipped.empty()) begin += std::clamp<Index>(skipped[static_cast<size_t>(n)], 0, end - begin);
  }
  Index length() const { return end - begin; }

  /// w_i and d of all modes except kMax, as in ops/pooling.cpp.
  float weight(Pooling pooling, Index i) const {
    if (pooling == Pooling::kCls) return i == first ? 1 : 0;
    if (pooling == Pooling::kLast) return i == end - 1 ? 1 : 0;
    return pooling == Pooling::kWeightedMean ? static_cast<float>(i - first + 1) : 1;
  }
  float divisor(Pooling pooling) const {
    const auto count = static_cast<double>(length());
    if (pooling == Pooling::kMean) return static_cast<float>(count);
    if (pooling == Pooling::kMeanSqrtLength) return std::sqrt(static_cast<float>(count));
    if (pooling != Pooling::kWeightedMean) return 1;
    return static_cast<float>(static_cast<double>(begin - first + 1 + end - first) * count / 2);
  }
};

}  // namespace

Variable pool(Graph& graph, const Variable& x, const Sequences& sequences, std::vector<Index> skipped,
              Pooling pooling) {
  requireShape("x", x.value(), sequences.totalRows(), x.cols());
  Matrix y(sequences.count(), x.cols());
  heed::pool(x.value(), sequences, skipped, pooling, y.view());
  const auto saved = pooling == Pooling::kMax ? x.shared() : nullptr;
  return graph.record(
      std::move(y), {x}, false,
      [node = x.node(), sequences, skipped = std::move(skipped), pooling, saved](Matrix& dy, Backward& pass) {
        Matrix dx(sequences.totalRows(), dy.cols());
        dx.view().setZero();
        for (Index n = 0; n < sequences.count(); ++n) {
          const PooledRows rows(sequences, skipped, n);
          if (!saved) {
            const Index begin = pooling == Pooling::kCls ? rows.first : rows.begin;
            for (Index i = begin; i < rows.end; ++i)
              dx.view().row(i) = rows.weight(pooling, i) * dy.values().row(n) / rows.divisor(pooling);
          }
          for (Index c = 0; saved && c < dy.cols() && rows.length() > 0; ++c) {
            const auto at = [&](Index row) { return saved->data()[row * dy.cols() + c]; };
            Index largest = rows.begin;
            for (Index row = rows.begin + 1; row < rows.end; ++row) {
              if (at(row) > at(largest)) largest = row;
            }
            dx.data()[largest * dy.cols() + c] = dy.data()[n * dy.cols() + c];
          }
        }
        pass.give(node, std::move(dx));
      });
}

Variable normalize(Graph& graph, const Variable& x) {
  constexpr double kLeast = 1e-12;
  std::vector<double> lengths;
  Matrix value(x.value());
  const Index width = x.cols();
  for (Index t = 0; t < x.rows(); ++t) {
    float* row = value.data() + t * width;
    double squares = 0;
    for (Index c = 0; c < width; ++c) squares += static_cast<double>(row[c]) * static_cast<double>(row[c]);
    lengths.push_back(std::max(std::sqrt(squares), kLeast));
    for (Index c = 0; c < width; ++c) row[c] = static_cast<float>(static_cast<double>(row[c]) / lengths.back());
  }
  const Variable result = graph.record(std::move(value), {x}, false, {});
  if (!result.node()) return result;
  result.node()->backward = [y = result.shared(), node = x.node(), lengths = std::move(lengths)](Matrix& dy,
                                                                                                 Backward& pass) {
    const Index columns = dy.cols();
    for (Index t = 0; t < dy.rows(); ++t) {
      const float* row = y->data() + t * columns;
      float* d = dy.data() + t * columns;
      const double length = lengths[static_cast<size_t>(t)];
      double along = 0;
      for (Index c = 0; c < columns && length > kLeast; ++c)
        along += static_cast<double>(row[c]) * static_cast<double>(d[c]);
      for (Index c = 0; c < columns; ++c)
        d[c] = static_cast<float>((static_cast<double>(d[c]) - along * static_cast<double>(row[c])) / length);
    }
    pass.give(node, std::move(dy));
  };
  return result;
}

}  // namespace heed::train
