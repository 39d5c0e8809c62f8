#pragma once

#include <array>
#include <span>

#include "gemm/attention_products.h"
#include "heed/attention.h"

/// Decides which keys the queries of one head of one sequence may attend to, and which work is skipped.
///
/// 1. KeySelection leaves out keys that masks hide from all queries, such as padding. They are not packed, and the
///    following steps count keys among the selected ones.
/// 2. VisibleKeys skips, for a block of queries, the panels of 8 selected keys that none of its queries may attend to.
/// 3. Within the remaining panels, scores of forbidden keys are computed and then set to -infinity.
namespace heed {

/// The keys that are left after applying the masks that are the same for all queries.
class KeySelection {
 public:
  /// For sequence n and head h. Takes memory from `arena` that must stay valid as long as this object.
  KeySelection(Index n, Index h, Index num_keys, const AttentionOptions& options, Arena& arena);

  const RowList& selected() const { return selected_; }
  Index numKeys() const { return num_keys_; }
  /// The range of selected keys that causality and the window allow for query i.
  Range visibleTo(Index i) const;

  const AttentionOptions& options() const { return options_; }
  Index sequence() const { return n_; }
  Index head() const { return h_; }

 private:
  Index n_, h_, num_keys_;
  const AttentionOptions& options_;
  RowList selected_;
};

/// The selected keys that a block of consecutive queries may attend to.
class VisibleKeys {
 public:
  /// Queries [first, first + count), count <= kMaxQueries.
  VisibleKeys(const KeySelection& selection, Index first, Index count, Arena& arena);

  /// The panels of selected keys that some query of the block may attend to.
  std::span<const Range> ranges() const { return ranges_; }
  /// The number of keys in ranges(), which is the number of columns of the block's scores.
  Index count() const { return count_; }

  /// Adds bias and masks to the scores of query r of the block; scores of forbidden keys become -infinity.
  void addBiasAndMasks(Index r, float* scores) const;

  /// Calls f(key, column) for each column of the scores; `key` is an index into all keys of the sequence.
  template <class F>
  void forEach(const F& f) const {
    Index column = 0;
    for (const Range& range : ranges_) {
      for (Index k = range.begin; k < range.end; ++k) f(selection_.selected()[k], column++);
    }
  }

  /// The selected keys whose score is not -infinity after addBiasAndMasks().
  std::span<const Range> allowed(const float* scores, Arena& arena) const;
  /// Moves the columns of the `allowed` keys to the front of the row.
  void gather(std::span<const Range> allowed, float* row) const;

 private:
  /// The entries of one mask for the keys in reach_, one row per query.
  struct BlockMask {
    bool hides_panels;  ///< differs between queries, and may hide panels from all of the block
    std::array<const uint8_t*, kMaxQueries> allowed;  ///< one of the two kinds, the other null
    std::array<const float*, kMaxQueries> added;
  };
  void gatherMasks(Arena& arena);
  template <class T>
  const T* gatherRow(const T* row, Index stride, Arena& arena) const;
  void findRanges(Arena& arena);
  bool hidesPanel(const BlockMask& mask, const Range& panel) const;

  const KeySelection& selection_;
  Index first_, rows_;
  Range reach_;  // selected keys that causality and the window allow for some query, rounded down to a panel's start
  std::span<const BlockMask> masks_;
  std::span<const Range> ranges_;
  Index count_ = 0;
};

}  // namespace heed
