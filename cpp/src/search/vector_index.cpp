#include "heed/vector_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/check.h"
#include "ops/vector_products.h"

namespace heed {
namespace {

constexpr Index kBlockRows = 4096;
constexpr Index kMaxDimensions = 1 << 16;
static_assert(kBlockRows % kRowsPerCall == 0);

Index roundedUp(Index count) { return (count + kStrideStep - 1) / kStrideStep * kStrideStep; }

/// Gives blocks room for `count` rows, or cuts them to it. New bytes are zeros.
void resizeRows(std::vector<std::vector<std::byte>>& blocks, Index stride, Index count) {
  blocks.resize(static_cast<size_t>((count + kBlockRows - 1) / kBlockRows));
  Index first = 0;
  for (auto& block : blocks) {
    block.resize(static_cast<size_t>(std::min(kBlockRows, count - first) * stride));
    first += kBlockRows;
  }
}

bool isBetter(const VectorHit& a, const VectorHit& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

/// The best of the rows that are added, up to the room for them: a heap whose front is the worst.
struct Best {
  VectorHit* hits;
  Index room;
  float limit;  // scores below are not among the best
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

}  // namespace

/// The queries of a call as the kernels multiply them, and passes over rows for all of them.
class VectorIndex::Scan {
 public:
  Scan(const VectorIndex& index, const float* queries, Index count, const VectorSearch& options, Context& context)
      : index_(index),
        queries_(queries),
        count_(count),
        options_(options),
        context_(context),
        sign_stride_(index.form_ == VectorForm::kBits ? index.stride_ : index.sign_stride_),
        integers_(context.arena.take<int16_t>(count * index.stride_)),
        signs_(context.arena.take<uint8_t>(count * sign_stride_)),
        scales_(context.arena.take(count)),
        errors_(context.arena.take(count)) {
    for (Index q = 0; q < count; ++q) prepare(q);
  }

  /// For each query the best `room` of all rows, by approximate scores or, if `by_signs`, by Hamming distances.
  Best* run(bool by_signs, Index room) const {
    const auto blocks = static_cast<Index>(index_.blocks_.size());
    const Index tasks = std::max<Index>(1, std::min(blocks, context_.executor.threads()));
    Best* const found = context_.arena.take<Best>(tasks * count_);
    for (Index i = 0; i < tasks * count_; ++i) {
      const float least = options_.threshold - errors_[i % count_];
      found[i] = {.hits = context_.arena.take<VectorHit>(room),
                  .room = room,
                  .limit = by_signs ? -std::numeric_limits<float>::infinity() : least};
    }
    context_.executor.run(tasks, context_, [&](Index task, Context&) {
      for (Index block = task * blocks / tasks; block < (task + 1) * blocks / tasks; ++block)
        scanBlock(block, by_signs, found + task * count_);
    });
    for (Index i = count_; i < tasks * count_; ++i) {
      for (const VectorHit* hit = found[i].hits; hit != found[i].hits + found[i].size; ++hit)
        found[i % count_].add(*hit);
    }
    return found;
  }

  /// The best `top_k` of the rows in `best` by their exact scores, in order.
  Index rank(Index q, const Best& best, VectorHit* ranked) const {
    Best exact{.hits = ranked, .room = options_.top_k, .limit = options_.threshold};
    for (Index i = 0; i < best.size; ++i) exact.add({best.hits[i].row, index_.score(query(q), best.hits[i].row)});
    std::sort_heap(ranked, ranked + exact.size, isBetter);
    return exact.size;
  }

  /// Whether no row outside of `best` can be among the ranked ones.
  bool isCertain(Index q, const Best& best, const VectorHit* ranked, Index size) const {
    const float least = size < options_.top_k ? options_.threshold : ranked[size - 1].score;
    return !best.isFull() || best.size == index_.count() || best.limit + errors_[q] < least;
  }

 private:
  const float* query(Index q) const { return queries_ + q * index_.width_; }

  void prepare(Index q) {
    const Index width = index_.width_;
    const float* from = query(q);
    float largest = 0;
    for (Index k = 0; k < width; ++k) largest = std::max(largest, std::abs(from[k]));
    // As large as 32-bit sums of products with entries up to 127 allow.
    const Index most = std::min<Index>(32767, std::numeric_limits<int32_t>::max() / (127 * width));
    const float scale = largest > 0 ? largest / static_cast<float>(most) : 1;
    int16_t* integers = integers_ + q * index_.stride_;
    std::fill_n(integers, index_.stride_, int16_t{0});
    uint8_t* signs = signs_ + q * sign_stride_;
    std::fill_n(signs, sign_stride_, uint8_t{0});
    for (Index k = 0; k < width; ++k) {
      if (index_.form_ == VectorForm::kInt8) integers[k] = static_cast<int16_t>(std::nearbyint(from[k] / scale));
      const int bit = index_.form_ == VectorForm::kBits ? 128 >> (k % 8) : 1 << (k % 8);
      if (from[k] > 0) signs[k / 8] |= static_cast<uint8_t>(bit);
    }
    scales_[q] = scale;
    // Rounding to integers, and of the sum to a float. Scores of bits are exact.
    errors_[q] = (0.501f * scale + 4e-7f * largest) * index_.largest_sum_;
  }

  void scanBlock(Index block, bool by_signs, Best* best) const {
    const Index end = std::min(index_.count(), (block + 1) * kBlockRows);
    for (Index first = block * kBlockRows; first < end; first += kRowsPerCall) {
      const Index rows = std::min(kRowsPerCall, end - first);
      if (by_signs)
        compareSigns(first, rows, best);
      else if (index_.form_ == VectorForm::kInt8)
        multiply(first, rows, best);
      else
        scoreRows(first, rows, best);
    }
  }

  void multiply(Index first, Index rows, Best* best) const {
    int32_t sums[kQueriesPerCall][kRowsPerCall];
    const auto* data = reinterpret_cast<const int8_t*>(index_.row(first));
    const Index stride = index_.stride_;
    for (Index q = 0; q < count_; q += kQueriesPerCall) {
      const Index queries = std::min(kQueriesPerCall, count_ - q);
      int8Products(data, rows, stride, integers_ + q * stride, queries, sums);
      for (Index i = 0; i < queries; ++i)
        collect(first, rows, sums[i], index_.factors_.data() + first, scales_[q + i], best[q + i]);
    }
  }

  void compareSigns(Index first, Index rows, Best* best) const {
    float ones[kRowsPerCall];
    std::fill_n(ones, kRowsPerCall, 1.0f);
    const auto& blocks = index_.form_ == VectorForm::kBits ? index_.blocks_ : index_.signs_;
    const auto* codes = reinterpret_cast<const uint8_t*>(at(blocks, sign_stride_, first));
    int32_t distances[kRowsPerCall];
    for (Index q = 0; q < count_; ++q) {
      hammingDistances(codes, rows, sign_stride_, signs_ + q * sign_stride_, distances);
      collect(first, rows, distances, ones, -1, best[q]);
    }
  }

  void collect(Index first, Index rows, const int32_t* sums, const float* factors, float scale, Best& best) const {
    float scores[kRowsPerCall];
    if (!scaleScores(sums, rows, factors, scale, best.limit, scores)) return;
    for (Index i = 0; i < rows; ++i) {
      if (scores[i] >= best.limit && isAllowed(first + i)) best.add({first + i, scores[i]});
    }
  }

  void scoreRows(Index first, Index rows, Best* best) const {
    for (Index n = first; n < first + rows; ++n) {
      for (Index q = 0; q < count_ && isAllowed(n); ++q) best[q].add({n, index_.score(query(q), n)});
    }
  }

  bool isAllowed(Index row) const {
    const auto word = static_cast<size_t>(row / 32);
    return options_.allowed.empty() ||
           (word < options_.allowed.size() && (options_.allowed[word] >> (row % 32) & 1) != 0);
  }

  const VectorIndex& index_;
  const float* queries_;
  Index count_;
  const VectorSearch& options_;
  Context& context_;
  Index sign_stride_;
  int16_t* integers_;  // (Q, stride) of kInt8: entry = scale * integer
  uint8_t* signs_;     // (Q, sign_stride) in the order of the rows' signs
  float* scales_;
  float* errors_;  // the most by which a score differs from that of the sum in double precision
};

VectorIndex::VectorIndex(VectorForm form, Index width) : form_(form), width_(width) {
  requireRange("width", width, 1, kMaxDimensions);
  row_bytes_ = form == VectorForm::kBits ? (width + 7) / 8 : width;
  stride_ = roundedUp(row_bytes_);
  sign_stride_ = roundedUp((width + 7) / 8);
}

const std::byte* VectorIndex::at(const std::vector<Block>& blocks, Index stride, Index n) {
  return blocks[static_cast<size_t>(n / kBlockRows)].data() + n % kBlockRows * stride;
}

std::byte* VectorIndex::at(std::vector<Block>& blocks, Index stride, Index n) {
  return const_cast<std::byte*>(at(std::as_const(blocks), stride, n));
}

void VectorIndex::append(const std::byte* rows, std::span<const float> factors) {
  const Index before = count(), after = before + static_cast<Index>(factors.size());
  try {
    factors_.insert(factors_.end(), factors.begin(), factors.end());
    resizeRows(blocks_, stride_, after);
    if (!signs_.empty()) resizeRows(signs_, sign_stride_, after);
  } catch (...) {
    truncate(before);
    throw;
  }
  for (Index n = before; n < after; ++n, rows += row_bytes_) {
    std::memcpy(at(blocks_, stride_, n), rows, static_cast<size_t>(row_bytes_));
    if (form_ == VectorForm::kInt8) largest_sum_ = std::max(largest_sum_, sumOf(n));
  }
  if (!signs_.empty()) packRows(before);
}

void VectorIndex::keep(std::span<const uint32_t> rows) {
  const auto move = [](std::vector<Block>& blocks, Index stride, Index from, Index to) {
    std::memcpy(at(blocks, stride, to), at(blocks, stride, from), static_cast<size_t>(stride));
  };
  Index to = 0;
  for (const Index from : rows) {
    if (from != to) {
      move(blocks_, stride_, from, to);
      if (!signs_.empty()) move(signs_, sign_stride_, from, to);
      factors_[static_cast<size_t>(to)] = factors_[static_cast<size_t>(from)];
    }
    ++to;
  }
  truncate(to);
}

void VectorIndex::copyRows(Index first, Index count, std::byte* out) const {
  for (Index n = first; n < first + count; ++n, out += row_bytes_)
    std::memcpy(out, row(n), static_cast<size_t>(row_bytes_));
}

void VectorIndex::search(const float* queries, Index num_queries, const VectorSearch& options, Context& context,
                         VectorHit* hits, Index* counts) {
  const bool by_signs = options.candidates > 0;
  if (by_signs && form_ == VectorForm::kInt8 && signs_.empty()) {
    resizeRows(signs_, sign_stride_, count());
    packRows(0);
  }
  const Arena::Scope scope(context.arena);
  // Some more than are wanted, as those of nearly equal scores are ranked by exact ones.
  constexpr Index kSpare = 16;
  const Index wanted = std::min(count(), by_signs ? options.candidates : options.top_k + kSpare);
  const Scan scan(*this, queries, num_queries, options, context);
  const Best* best = scan.run(by_signs, wanted);
  for (Index q = 0; q < num_queries; ++q, hits += options.top_k) {
    counts[q] = scan.rank(q, best[q], hits);
    bool is_certain = by_signs || scan.isCertain(q, best[q], hits, counts[q]);
    for (Index more = wanted; !is_certain;) {
      more = std::min(count(), 4 * more);
      const Arena::Scope again(context.arena);
      const Scan own(*this, queries + q * width_, 1, options, context);
      const Best* found = own.run(false, more);
      counts[q] = own.rank(0, *found, hits);
      is_certain = own.isCertain(0, *found, hits, counts[q]);
    }
  }
}

void VectorIndex::truncate(Index count) {
  factors_.resize(static_cast<size_t>(count));
  resizeRows(blocks_, stride_, count);
  if (!signs_.empty()) resizeRows(signs_, sign_stride_, count);
}

double VectorIndex::entry(const std::byte* row, Index k) const {
  if (form_ == VectorForm::kInt8) return reinterpret_cast<const int8_t*>(row)[k];
  return (static_cast<int>(row[k / 8]) & (128 >> (k % 8))) != 0 ? 1 : -1;
}

float VectorIndex::score(const float* query, Index n) const {
  const std::byte* own = row(n);
  double sum = 0;
  for (Index k = 0; k < width_; ++k) sum += query[k] * entry(own, k);
  return static_cast<float>(sum * factors_[static_cast<size_t>(n)]);
}

float VectorIndex::sumOf(Index n) const {
  const std::byte* own = row(n);
  double sum = 0;
  for (Index k = 0; k < width_; ++k) sum += std::abs(entry(own, k));
  return static_cast<float>(sum * std::abs(factors_[static_cast<size_t>(n)]));
}

void VectorIndex::packRows(Index first) {
  for (Index n = first; n < count(); ++n) {
    auto* signs = reinterpret_cast<uint8_t*>(at(signs_, sign_stride_, n));
    packSigns(reinterpret_cast<const int8_t*>(row(n)), stride_, signs);
  }
}

}  // namespace heed
