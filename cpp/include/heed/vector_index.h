#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "heed/context.h"

/// Search among vectors in memory: every row is compared with the query, so there is no graph to build.
/// Notation: N rows of D entries, Q queries.
namespace heed {

/// How an index stores its rows.
enum class VectorForm {
  kInt8,  ///< D integers from -127 to 127
  kBits,  ///< signs in ceil(D / 8) bytes: 1 for +1 and 0 for -1, the first entry in the highest bit
  kFloat32,
};

struct VectorHit {
  Index row;
  float score;
};

struct VectorSearch {
  Index top_k = 10;
  const float* thresholds;  ///< (Q) the least score of a hit for each query; -infinity: none
  /// How many rows are scored: those whose signs differ least from the query's (Hamming distance; Yamada et al. 2021,
  /// arXiv:2106.00882); 0: all.
  Index candidates = 0;
  std::span<const uint32_t> allowed;  ///< bit n of word n / 32: whether row n may be a hit; empty: all may
};

/// The score of row r for query q is factor_r (q . r), where factor_r is the row's factor: 1 / |r| for the cosine with
/// queries of length 1, the scale of quantized entries for the dot product. Lengths of rows and queries are expected to
/// be at most 1e18, so that scores are finite.
class VectorIndex {
 public:
  /// Throws kInvalidArgument unless 1 <= D <= 2^16.
  VectorIndex(VectorForm form, Index width);

  VectorForm form() const { return form_; }
  Index width() const { return width_; }  ///< D
  Index count() const { return static_cast<Index>(factors_.size()); }
  /// The bytes of a row as append() and copyRows() have it.
  Index rowBytes() const { return row_bytes_; }

  /// Appends rows, (factors.size(), rowBytes()). Throws kOutOfMemory, and then leaves the index as it was.
  void append(const std::byte* rows, std::span<const float> factors);
  /// Removes all rows but these, which ascend.
  void keep(std::span<const uint32_t> rows);
  /// Copies `count` rows from `first` on to `out`, (count, rowBytes()).
  void copyRows(Index first, Index count, std::byte* out) const;

  /// Writes the best rows for each of the queries (Q, D) to `hits` (Q, top_k), best first and equal ones in the order
  /// of the index, and how many there are to `counts` (Q). Scores are sums in double precision of the entries as they
  /// are stored, whatever the instruction set and the number of threads.
  void search(const float* queries, Index num_queries, const VectorSearch& options, Context& context, VectorHit* hits,
              Index* counts);

 private:
  class Scan;
  using Block = std::vector<std::byte>;

  static const std::byte* at(const std::vector<Block>& blocks, Index stride, Index n);
  static std::byte* at(std::vector<Block>& blocks, Index stride, Index n);
  const std::byte* row(Index n) const { return at(blocks_, stride_, n); }
  /// Entries between rows.
  Index rowStep() const { return form_ == VectorForm::kFloat32 ? stride_ / Index{sizeof(float)} : stride_; }
  double entry(const std::byte* row, Index k) const;
  float score(const float* query, Index n) const;
  void truncate(Index count);
  /// Computes the signs of the rows from `first` on.
  void packRows(Index first);

  VectorForm form_;
  Index width_, row_bytes_ = 0;
  Index stride_ = 0, sign_stride_ = 0;  // bytes between rows, which end with zeros
  // Rows in blocks of equal size, so that an index grows without being copied.
  std::vector<Block> blocks_;
  std::vector<Block> signs_;  // of other forms than kBits, once a search has needed them
  std::vector<float> factors_;
  float largest_length_ = 0;  // at least factor_r |r| of every row
};

}  // namespace heed
