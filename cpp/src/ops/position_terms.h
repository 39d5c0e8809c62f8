#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "gemm/attention_products.h"
#include "heed/attention.h"
#include "ops/key_selection.h"

namespace heed {

/// The terms of DisentangledPositions for one head of one sequence: PK packed for the product with each block of
/// queries, and the product K PQ^T. Only the C rows for distances that occur in the sequence are included.
class PositionTerms {
 public:
  PositionTerms(Index h, ConstMatrixView key, Index num_queries, const AttentionOptions& options, Arena& arena)
      : positions_(options.positions), offset_(options.query_offset), keys_(key.rows()) {
    if (!positions_ || key.rows() == 0 || num_queries == 0) return;
    active_ = true;
    first_ = row(offset_ - (key.rows() - 1));
    const Index end = row(offset_ + num_queries - 1) + 1, width = key.cols();
    const auto packed = [&](ConstMatrixView all) {
      return packKeys(headRows(all, first_, end, h, width), {nullptr, end - first_}, arena);
    };
    count_ = end - first_;
    if (positions_->key) position_keys_ = packed(positions_->key.values());
    if (!positions_->query) return;
    const Panels position_queries = packed(positions_->query.values());
    key_terms_.emplace(arena.matrix(key.rows(), paddedColumns()));
    const Arena::Scope scope(arena);
    auto* words = arena.take<uint32_t>(kMaxQueries * width);
    for (Index b = 0, blocks = queryBlocks(key.rows()); b < blocks; ++b) {
      const Index begin = evenPart(key.rows(), blocks, b), count = evenPart(key.rows(), blocks, b + 1) - begin;
      const Range columns = columnsFor(offset_ - (begin + count - 1), offset_ + num_queries - 1 - begin);
      multiply(view(key.data() + begin * key.outerStride(), count, width, key.outerStride()), position_queries, columns,
               view(key_terms_->data() + begin * key_terms_->outerStride() + columns.begin, count,
                    paddedColumns() - columns.begin, key_terms_->outerStride()),
               words);
    }
  }

  /// Adds the terms of a block of queries, which begins at query `first`, to its scores.
  void add(ConstMatrixView query, Index first, float scale, const VisibleKeys& visible, MatrixView scores,
           uint32_t* words, Arena& arena) const {
    if (!active_) return;
    const Arena::Scope scope(arena);
    const Index last = offset_ + first + query.rows() - 1;
    const Range columns = columnsFor(offset_ + first - (keys_ - 1), last);
    std::optional<MatrixView> query_terms;
    if (positions_->key) {
      query_terms.emplace(arena.matrix(query.rows(), paddedColumns() - columns.begin));
      multiply(query, position_keys_, columns, *query_terms, words);
    }
    for (Index r = 0; r < query.rows(); ++r) {
      const Index position = offset_ + first + r;
      float* row_scores = scores.data() + r * scores.outerStride();
      const auto add_terms = [&](const auto& term) {
        visible.forEach(
            [&](Index key, Index column) { row_scores[column] += scale * term(key, index(position - key)); });
      };
      const float* own = query_terms ? query_terms->data() + r * query_terms->outerStride() - columns.begin : nullptr;
      const auto of_key = [&](Index key, Index at) { return key_terms_->data()[key * key_terms_->outerStride() + at]; };
      if (own && key_terms_) {
        add_terms([&](Index key, Index at) { return own[at] + of_key(key, at); });
      } else if (own) {
        add_terms([&](Index, Index at) { return own[at]; });
      } else if (key_terms_) {
        add_terms(of_key);
      }
    }
  }

  explicit operator bool() const { return active_; }
  /// Rows [first, first + count) of PK and PQ are included.
  Index first() const { return first_; }
  Index count() const { return count_; }
  /// The index of the row for the distance i - j among the included rows.
  Index index(Index distance) const { return row(distance) - first_; }

 private:
  Index row(Index distance) const {
    const Index most = positions_->max_distance;
    return positions_->rows[most + std::clamp(distance, -most, most)] - positions_->first;
  }
  Index paddedColumns() const { return (count_ + 7) / 8 * 8; }
  /// The columns for distances in [least, greatest], rounded to whole column panels.
  Range columnsFor(Index least, Index greatest) const {
    return {index(least) / 8 * 8, std::min(count_, (index(greatest) / 8 + 1) * 8)};
  }
  static void multiply(ConstMatrixView a, const Panels& panels, Range columns, MatrixView out, uint32_t* words) {
    const Range depth{0, panels.depth};
    std::array<float, kMaxQueries> ones;
    ones.fill(1);
    multiplySelected(a, panels, {&depth, 1}, {&columns, 1}, ones.data(), out, words);
  }

  const DisentangledPositions* positions_;
  Index offset_, keys_;          // query_offset; S
  Index first_ = 0, count_ = 0;  // the included rows of PK and PQ
  bool active_ = false;
  Panels position_keys_{};               // (Dk, C)
  std::optional<MatrixView> key_terms_;  // K PQ^T (S, C)
};

}  // namespace heed
