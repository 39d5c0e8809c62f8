#pragma once

#include <array>
#include <span>

#include "gemm/attention_products.h"
#include "heed/attention.h"

/// Which keys the queries of one head in one sequence may attend to, and what is skipped because of it.
///
/// Forbidden work is left out in three steps. Keys that masks hide from all queries, such as padding, are not packed
/// (KeySelection); from there on keys are counted among the selected ones. A block of queries passes over the panels of
/// 8 selected keys that none of its queries may see (VisibleKeys). Within a panel, forbidden keys are computed and get
/// the score -infinity.
namespace heed {

/// The keys that some query may attend to, as far as the masks that are the same for all queries tell.
class KeySelection {
 public:
  /// For sequence n and head h; what it takes from `arena` must outlive it.
  KeySelection(Index n, Index h, Index num_keys, const AttentionOptions& options, Arena& arena);

  const RowList& selected() const { return selected_; }
  Index numKeys() const { return num_keys_; }
  /// The selected keys that query i may attend to as far as causality and the window tell.
  Range visibleTo(Index i) const;

  const AttentionOptions& options() const { return options_; }
  Index sequence() const { return n_; }
  Index head() const { return h_; }

 private:
  Index n_, h_, num_keys_;
  const AttentionOptions& options_;
  RowList selected_;
};

/// The selected keys beside a block of consecutive queries.
class VisibleKeys {
 public:
  /// Queries [first, first + count), count <= kMaxQueries.
  VisibleKeys(const KeySelection& selection, Index first, Index count, Arena& arena);

  /// The panels of selected keys that some query of the block may attend to.
  std::span<const Range> ranges() const { return ranges_; }
  /// Keys in them: the columns of the block's scores.
  Index count() const { return count_; }

  /// scores <- scores + bias + masks for query r of the block, -infinity where it may not attend to the key.
  void addBiasAndMasks(Index r, float* scores) const;

  /// f(key, column) for each column of the scores; `key` counts among all keys of the sequence.
  template <class F>
  void forEach(const F& f) const {
    Index column = 0;
    for (const Range& range : ranges_) {
      for (Index k = range.begin; k < range.end; ++k) f(selection_.selected()[k], column++);
    }
  }

  /// The selected keys whose score, in `scores` after addBiasAndMasks(), is not -infinity.
  std::span<const Range> allowed(const float* scores, Arena& arena) const;
  /// Moves the columns of `allowed` to the front of their row.
  void gather(std::span<const Range> allowed, float* row) const;

 private:
  /// A mask's entries for the keys within reach, a row per query.
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
  Range reach_;  // selected keys that causality and the window show to some query, from a panel's first on
  std::span<const BlockMask> masks_;
  std::span<const Range> ranges_;
  Index count_ = 0;
};

}  // namespace heed
