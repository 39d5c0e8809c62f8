#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "heed/tensor.h"
#include "ops/vectors.h"

/// Long sums in gradients. A sum of many terms in fp32 loses digits: with 4 million equal terms, it is 4 % off. All
/// gradients that are sums over rows, positions or scores use these classes. The order of the terms depends only on the
/// arguments, never on the number of threads.
namespace heed::train {

/// A sum of rows of `width` floats: in fp32 within blocks of kBlock rows, whose sums are added in double.
class RowSum {
 public:
  explicit RowSum(Index width);
  /// Adds all rows of a matrix.
  void add(ConstMatrixView rows);
  /// Adds one row.
  void add(const float* row);
  /// Calls f(sum), which must add one row to the `width` floats at `sum`.
  template <class F>
  void addBy(const F& f) {
    f(block_.data());
    if (++rows_ == kBlock) endBlock();
  }
  /// out += factor sum. The sum then begins again with 0.
  void addTo(float* out, double factor = 1);

 private:
  static constexpr Index kBlock = 32;
  void endBlock();

  std::vector<float> block_;
  std::vector<double> total_;
  Index rows_ = 0;  // in the block
};

/// Sums in double of floats that are added to arbitrary elements of an array.
class ScatteredSums {
 public:
  /// `terms`: the total number of floats that will be added. finish() adds their sums to `out`; without data, there is
  /// nothing to add to.
  ScatteredSums(MatrixView out, double terms);
  explicit operator bool() const { return out_ != nullptr; }
  void add(Index i, float x) {
    if (sums_.empty())
      out_[i] += x;
    else
      sums_[static_cast<size_t>(i)] += static_cast<double>(x);
  }
  /// Adds factor x[k] to element i + k for k in [0, count), if there is something to add to.
  void add(Index i, Index count, const float* x, float factor) {
    for (Index k = 0; k < count && out_; ++k) add(i + k, factor * x[k]);
  }
  void finish();

 private:
  float* out_;
  std::vector<double> sums_;  // empty if each element has at most one term
};

/// Adds row t of x (T, width), times `factor`, to the `width` floats at out(rows[t]), for all t; null: the row needs no
/// gradient.
template <class Out>
void addToRows(std::span<const Index> rows, const float* x, Index width, float factor, const Out& out) {
  std::vector<Index> order(rows.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto row_of = [&](Index t) { return rows[static_cast<size_t>(t)]; };
  // All rows of a sparse gradient are made before the first one is written, in the order in which they occur.
  for (const Index row : rows) (void)out(row);
  if (!std::ranges::is_sorted(rows))
    std::ranges::sort(order, [&](Index a, Index b) { return row_of(a) != row_of(b) ? row_of(a) < row_of(b) : a < b; });
  RowSum sum(width);
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    const Index row = row_of(order[begin]);
    for (end = begin + 1; end < order.size() && row_of(order[end]) == row;) ++end;
    float* to = out(row);
    if (!to) continue;
    if (end == begin + 1) {
      accumulate(width, x + order[begin] * width, to, factor);
      continue;
    }
    for (size_t i = begin; i < end; ++i) sum.add(x + order[i] * width);
    sum.addTo(to, static_cast<double>(factor));
  }
}

}  // namespace heed::train
