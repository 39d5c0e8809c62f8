#pragma once

#include <algorithm>
#include <limits>

#include "heed/context.h"
#include "heed/vector_index.h"

/// The rows that a pass over a VectorIndex retains.
namespace heed {

inline bool isBetter(const VectorHit& a, const VectorHit& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

/// Keeps the best `room` of the hits that are added, in a heap whose front is the worst.
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

}  // namespace heed
