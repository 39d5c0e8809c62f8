#pragma once

#include "heed/vector_index.h"
#include "ops/vector_products.h"
#include "search/best.h"

namespace heed {

/// The least multiple of `step` that is at least `count`.
inline Index roundedUp(Index count, Index step) { return (count + step - 1) / step * step; }

/// Rows of a block, which is allocated at once.
inline constexpr Index kRowsPerBlock = 4096;
static_assert(kRowsPerBlock % kRowsPerCall == 0);

/// Queries that pass over the rows together: with a few rows, they fit into the second-level cache.
inline constexpr Index kQueriesPerPass = 256;

/// The queries of a call as the kernels multiply them, and passes over rows for all of them. Scores are those of
/// rounded queries, or sums in single precision; errors_ bounds how far they are from the exact ones.
class VectorIndex::Scan {
 public:
  /// Of at most kQueriesPerPass; `by_signs`: for run() by signs.
  Scan(const VectorIndex& index, const float* queries, Index count, const VectorSearch& options, bool by_signs,
       Context& context);

  /// For each query the best `room` of all rows or, by signs, of the nearest rows.
  Best* run(Index room) const;

  /// The best `top_k` of the rows in `best` by their exact scores, in order.
  Index rank(Index q, const Best& best, VectorHit* ranked) const;

  /// Whether no other row that run() compared can be among the ranked ones.
  bool isCertain(Index q, const Best& best, const VectorHit* ranked, Index size) const;

 private:
  const float* query(Index q) const { return queries_ + q * index_.width_; }
  template <class Entry>
  const Entry* rows(Index first) const {
    return reinterpret_cast<const Entry*>(index_.row(first));
  }
  template <class Entry>
  const Entry* prepared(Index q) const;

  void prepare(Index q);

  Best* makeBest(Index count, Index room) const;
  void scanBlock(Index block, Best* best) const;
  void scanCoarse(Index block, Best* best) const;
  void compareSigns(Index block, Nearest* nearest) const;
  void scoreRows(Index first, Index rows, Best* best) const;
  template <class Entry, class Sum>
  void multiply(Index first, Index rows, Best* best) const;
  /// Adds rows with their scores.
  void score(Index q, const Index* rows, Index count, Best& best) const;
  template <class Entry, class Sum>
  void multiplyEach(Index q, const Index* rows, Index count, Best& best) const;

  bool isAllowed(Index row) const {
    const auto word = static_cast<size_t>(row / 32);
    return options_.allowed.empty() ||
           (word < options_.allowed.size() && (options_.allowed[word] >> (row % 32) & 1) != 0);
  }

  const VectorIndex& index_;
  const float* queries_;
  Index count_;
  const VectorSearch& options_;
  bool by_signs_;
  Context& context_;
  Index step_, sign_stride_, coarse_step_;
  // Entry k of query q is scales_[q] times entry k of one of these.
  int16_t* integers_ = nullptr;  // (Q, step) for kInt8
  float* floats_ = nullptr;      // (Q, step) for kFloat32
  uint8_t* signs_;               // (Q, sign_stride) in the order of the rows' signs
  float* scales_;
  float* errors_;  // the most by which a score differs from that of the sum in double precision
  // The same in few bits, to skip most rows; null if they are not used.
  uint8_t* coarse_ = nullptr;         // (Q rounded up to whole calls, coarse_step_)
  int16_t* coarse_offset_ = nullptr;  // a query whose products with rows are added to those with coarse_
  float* coarse_scales_ = nullptr;
  float* coarse_errors_ = nullptr;  // the most by which their scores differ from those of integers_
};

}  // namespace heed
