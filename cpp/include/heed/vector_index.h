#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "heed/context.h"

/// Vector search in memory by comparing every row with the query, so that no search graph is needed.
/// Notation: N rows of D entries, Q queries.
namespace heed {

/// How an index stores its rows.
enum class VectorForm {
  kInt8,  ///< D integers from -127 to 127
  kBits,  ///< signs in ceil(D / 8) bytes: a bit is 1 for +1 and 0 for -1; the first entry is the highest bit
  kFloat32,
};

struct VectorHit {
  Index row;
  float score;
};

struct VectorSearch {
  Index top_k = 10;         ///< maximum number of hits per query
  const float* thresholds;  ///< (Q) minimum score of a hit for each query; -infinity: no minimum
  /// Score only this many rows: those whose signs have the smallest Hamming distance to the query's (Yamada et al.
  /// 2021, arXiv:2106.00882). 0: score all rows.
  Index candidates = 0;
  std::span<const uint32_t> allowed;  ///< row n may be a hit if bit n % 32 of word n / 32 is set; empty: all rows may
};

/// The score of row r for query q is factor_r (q . r). factor_r is 1 / |r| for cosines (with queries of unit norm), or
/// the scale of quantized entries for dot products. The norms of rows and queries must be at most 1e18, so that scores
/// are finite.
class VectorIndex {
 public:
  /// Throws kInvalidArgument unless 1 <= D <= 2^16.
  VectorIndex(VectorForm form, Index width);

  VectorForm form() const { return form_; }
  Index width() const { return width_; }  ///< D
  Index count() const { return static_cast<Index>(factors_.size()); }
  /// The size of a row in append() and copyRows().
  Index rowBytes() const { return row_bytes_; }

  /// Appends rows, (factors.size(), rowBytes()). Throws kOutOfMemory; the index is then unchanged.
  void append(const std::byte* rows, std::span<const float> factors);
  /// Removes all rows except `rows`, indices in ascending order.
  void keep(std::span<const uint32_t> rows);
  /// Copies `count` rows from `first` on to `out`, (count, rowBytes()).
  void copyRows(Index first, Index count, std::byte* out) const;

  /// Writes the best rows for each of the queries (Q, D) to `hits` (Q, top_k) and their number to `counts` (Q). The
  /// best row comes first; ties are in the order of the index. Scores are computed from the stored entries in double
  /// precision and do not depend on the instruction set or the number of threads.
  void search(const float* queries, Index num_queries, const VectorSearch& options, Context& context, VectorHit* hits,
              Index* counts);

 private:
  class Scan;
  using Block = std::vector<std::byte>;

  static const std::byte* at(const std::vector<Block>& blocks, Index stride, Index n);
  static std::byte* at(std::vector<Block>& blocks, Index stride, Index n);
  const std::byte* row(Index n) const { return at(blocks_, stride_, n); }
  /// Distance between rows in entries.
  Index rowStep() const { return form_ == VectorForm::kFloat32 ? stride_ / Index{sizeof(float)} : stride_; }
  double entry(const std::byte* row, Index k) const;
  float score(const float* query, Index n) const;
  /// Whether two rows have the same entries and factors, and therefore the same score for any query.
  bool areEqual(Index a, Index b) const;
  void truncate(Index count);
  /// Computes the signs of all rows starting at `first`.
  void packRows(Index first);

  VectorForm form_;
  Index width_, row_bytes_ = 0;
  Index stride_ = 0, sign_stride_ = 0;  // distance between rows in bytes; rows are padded with zeros
  // Rows in blocks of equal size, so that an index grows without being copied.
  std::vector<Block> blocks_;
  std::vector<Block> signs_;  // kInt8 and kFloat32: computed by the first search with candidates
  std::vector<float> factors_;
  std::vector<int32_t> sums_;  // kInt8: the sum of each row's entries, which cancels the offset of coarse queries
  float largest_length_ = 0;   // at least factor_r |r| for every row
};

}  // namespace heed
