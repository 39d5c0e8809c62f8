#pragma once

#include <array>
#include <span>

#include "gemm/attention_products.h"
#include "heed/attention.h"

/// Decides which keys the queries of one head of one sequence may attend to, and which work is skipped.
///
/// 1. KeySelection leaves out the keys that masks hide from all queries, such as padding. The *selected* keys are
///    packed, and the following steps count keys among them.
/// 2. For a block of queries, causality and the window first narrow the range of selected keys to the *candidates*
///    (KeySelection::visibleTo()). VisibleKeys then skips the panels of 8 candidates that masks hide from all of the
///    block's queries. The rest are *visible*: their scores are computed.
/// 3. A visible key is *allowed* for one query, or its score is set to -infinity.
namespace heed {

/// The keys that remain after applying the masks that are the same for all queries.
class KeySelection {
 public:
  /// Selects keys of head h in sequence n. `masks` are options.masks, broadcast. Takes memory from `arena`, which must
  /// stay valid as long as this object.
  KeySelection(Index n, Index h, Index num_keys, const AttentionOptions& options, std::span<const Mask> masks,
               Arena& arena);

  const RowList& selected() const { return selected_; }
  /// Number of all keys of the sequence, selected or not.
  Index totalKeys() const { return num_keys_; }
  /// The range of selected keys that causality and the window allow for query i.
  Range visibleTo(Index i) const;

  const AttentionOptions& options() const { return options_; }
  std::span<const Mask> masks() const { return masks_; }
  Index sequence() const { return n_; }
  Index head() const { return h_; }

 private:
  Index n_, h_, num_keys_;
  const AttentionOptions& options_;
  std::span<const Mask> masks_;
  RowList selected_;
};

/// The selected keys that a block of consecutive queries may attend to.
class VisibleKeys {
 public:
  /// Queries [first, first + num_queries), num_queries <= kMaxQueries.
  VisibleKeys(const KeySelection& selection, Index first, Index num_queries, Arena& arena);

  /// The visible keys as ranges of selected keys, in whole panels.
  std::span<const Range> ranges() const { return ranges_; }
  /// The number of keys in ranges(), which is the number of columns of the block's scores.
  Index count() const { return count_; }

  /// Adds masks and, if `adds_bias`, the bias to the scores of query r of the block; scores of forbidden keys become
  /// -infinity.
  void addBiasAndMasks(Index r, float* scores, bool adds_bias = true) const;

  /// Calls f(key, column) for each column of the scores; `key` is an index into all keys of the sequence.
  template <class F>
  void forEach(const F& f) const {
    Index column = 0;
    for (const Range& range : ranges_) {
      for (Index k = range.begin; k < range.end; ++k) f(selection_.selected()[k], column++);
    }
  }

  /// The selected keys whose score is not `forbidden`, which is -infinity after addBiasAndMasks().
  std::span<const Range> allowed(const float* scores, float forbidden, Arena& arena) const;
  /// Moves the columns of the `allowed` keys to the front of the row.
  void compactRow(std::span<const Range> allowed, float* row) const;

 private:
  /// The entries of one mask for the candidates, one row per query, as an additive mask.
  struct BlockMask {
    bool hides_panels;  ///< differs between queries, so that it may hide a panel from the whole block
    std::array<const float*, kMaxQueries> added;
  };
  void loadMasks(Arena& arena);
  const float* maskRow(const Mask& mask, Index first, Arena& arena) const;
  void findRanges(Arena& arena);
  bool hidesPanel(const BlockMask& mask, const Range& panel) const;

  const KeySelection& selection_;
  Index first_, rows_;
  Range candidates_;  // selected keys that causality and the window allow; begins at the start of a panel
  std::span<const BlockMask> masks_;
  std::span<const Range> ranges_;
  Index count_ = 0;
};

}  // namespace heed
