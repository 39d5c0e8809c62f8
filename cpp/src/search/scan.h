#pragma once

#include <algorithm>
#include <limits>

#include "heed/context.h"
#include "heed/vector_index.h"
#include "ops/vector_products.h"

namespace heed {

/// `count` rounded up to a multiple of `step`.
inline Index roundedUp(Index count, Index step) { return (count + step - 1) / step * step; }

/// Number of rows per block. A block is one allocation.
inline constexpr Index kRowsPerBlock = 4096;
static_assert(kRowsPerBlock % kRowsPerCall == 0);

/// Maximum number of queries per pass over the rows: they and a few rows fit into the second-level cache.
inline constexpr Index kQueriesPerPass = 256;

inline bool isBetter(const VectorHit& a, const VectorHit& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

/// Keeps the best `room` of the hits that are added, with exact scores, in a heap whose front is the worst.
struct Best {
  VectorHit* hits;
  Index room;   // capacity of `hits`
  float limit;  // hits with lower scores are dropped
  Index size = 0;

  bool isFull() const { return size == room; }

  void add(const VectorHit& hit) {
    if (hit.score < limit || room == 0) return;
    if (isFull()) {
      if (!isBetter(hit, *hits)) return;
      std::pop_heap(hits, hits + size, isBetter);
      --size;
    }
    hits[size++] = hit;
    std::push_heap(hits, hits + size, isBetter);
    if (isFull()) limit = hits->score;
  }
};

/// Keeps the `room` rows with the smallest distances. Add rows in ascending order; ties keep the earlier row. Up to
/// twice as many rows are collected before the farthest are dropped, which takes constant time per row.
class Nearest {
 public:
  struct Row {
    Index row;
    int32_t distance;
  };

  Nearest(Index room, Index largest_distance, Arena& arena)
      : room_(room),
        distances_(largest_distance + 1),
        rows_(arena.take<Row>(2 * room)),
        counts_(arena.take<Index>(distances_)),
        limit_(static_cast<int32_t>(largest_distance)) {}

  /// Rows at larger distances are dropped.
  int32_t limit() const { return limit_; }

  void add(const Row& row) {
    if (row.distance > limit_) return;
    if (size_ == 2 * room_) cut();
    if (row.distance <= limit_) rows_[size_++] = row;
  }

  /// The rows, in ascending order.
  std::span<const Row> take() {
    if (size_ > room_) cut();
    return {rows_, static_cast<size_t>(size_)};
  }

 private:
  void cut() {
    std::fill_n(counts_, distances_, Index{0});
    for (Index i = 0; i < size_; ++i) ++counts_[rows_[i].distance];
    int32_t farthest = 0;
    Index left = room_;  // number of rows to keep at the farthest distance
    for (; left > counts_[farthest]; ++farthest) left -= counts_[farthest];
    Index kept = 0;
    for (Index i = 0; i < size_; ++i) {
      const int32_t distance = rows_[i].distance;
      if (distance < farthest || (distance == farthest && left-- > 0)) rows_[kept++] = rows_[i];
    }
    size_ = kept;
    limit_ = farthest - 1;  // ties keep the earlier rows
  }

  Index room_, distances_;
  Row* rows_;
  Index* counts_;
  int32_t limit_;
  Index size_ = 0;
};

/// Queries in the form that the kernels multiply, and passes over the rows for all of them. Kernels multiply rounded
/// queries or in single precision; errors_ bounds the distance of these scores from the exact ones. Exact scores are
/// computed only of rows that may be among the best.
class VectorIndex::Scan {
 public:
  /// Prepares `count` queries, at most kQueriesPerPass. `by_signs`: run() selects candidates by Hamming distance.
  Scan(const VectorIndex& index, const float* queries, Index count, const VectorSearch& options, bool by_signs,
       Context& context);

  /// Returns the best `top_k` rows for each query: among all rows or, by signs, among the candidates.
  Best* run() const;

 private:
  const float* query(Index q) const { return queries_ + q * index_.width_; }
  template <class Entry>
  const Entry* rows(Index first) const {
    return reinterpret_cast<const Entry*>(index_.row(first));
  }
  template <class Entry>
  const Entry* prepared(Index q) const;

  void prepare(Index q);

  Best* makeBest(Index count) const;
  /// The least score by the kernels of a row that may be among the best.
  float limit(Index q, const Best& best) const { return best.limit - errors_[q]; }
  /// Adds a row whose score by the kernels reaches the limit.
  void add(Index q, Index row, Best& best) const;
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
  uint8_t* coarse_ = nullptr;       // (Q rounded up to a multiple of kCoarseQueries, coarse_step_), see coarsePlace()
  float* coarse_scales_ = nullptr;  // (the same number of queries)
  float* coarse_errors_ = nullptr;  // bounds the difference between a coarse score and the exact one
};

}  // namespace heed
