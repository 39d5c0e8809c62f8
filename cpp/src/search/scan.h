#pragma once

#include "heed/vector_index.h"
#include "ops/vector_products.h"
#include "search/best.h"

namespace heed {

/// `count` rounded up to a multiple of `step`.
inline Index roundedUp(Index count, Index step) { return (count + step - 1) / step * step; }

/// Number of rows per block. A block is one allocation.
inline constexpr Index kRowsPerBlock = 4096;
static_assert(kRowsPerBlock % kRowsPerCall == 0);

/// Maximum number of queries per pass over the rows: they and a few rows fit into the second-level cache.
inline constexpr Index kQueriesPerPass = 256;

/// Queries in the form that the kernels multiply, and passes over the rows for all of them. Scores are computed with
/// rounded queries or in single precision; errors_ bounds their distance from the exact scores.
class VectorIndex::Scan {
 public:
  /// Prepares `count` queries, at most kQueriesPerPass. `by_signs`: run() selects candidates by Hamming distance.
  Scan(const VectorIndex& index, const float* queries, Index count, const VectorSearch& options, bool by_signs,
       Context& context);

  /// Returns the best `room` rows for each query: among all rows or, by signs, among the candidates.
  Best* run(Index room) const;

  /// Writes the best `top_k` rows of `best`, in order of their exact scores, and returns their number.
  Index rank(Index q, const Best& best, VectorHit* ranked) const;

  /// Whether no row that run() has dropped can belong to the ranked rows.
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
  /// Scores rows for query q and adds them to `best`.
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
  // Entry k of query q is scales_[q] times entry k of integers_ or floats_.
  int16_t* integers_ = nullptr;  // (Q, step_) for kInt8
  float* floats_ = nullptr;      // (Q, step_) for kFloat32
  uint8_t* signs_;               // (Q, sign_stride_), with the same bit order as the rows' signs
  float* scales_;
  float* errors_;  // bounds the difference between a score and the score in double precision
  // Coarse queries (see coarseProducts()), whose scores exclude most rows; null if they are not used.
  uint8_t* coarse_ = nullptr;         // (Q rounded up to a multiple of kCoarseQueries, coarse_step_)
  int16_t* coarse_offset_ = nullptr;  // cancels the offset of coarse entries: each is -(L + 1)
  float* coarse_scales_ = nullptr;
  float* coarse_errors_ = nullptr;  // bounds the difference between a coarse score and the score with integers_
};

}  // namespace heed
