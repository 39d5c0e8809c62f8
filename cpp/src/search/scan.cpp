#include "search/scan.h"

#include <cmath>
#include <new>
#include <type_traits>
#include <utility>

namespace heed {
namespace {

/// Minimum number of queries for coarse products. With fewer queries, products of 16-bit integers are faster.
constexpr Index kLeastCoarse = 3;

}  // namespace

VectorIndex::Scan::Scan(const VectorIndex& index, const float* queries, Index count, const VectorSearch& options,
                        bool by_signs, Context& context)
    : index_(index),
      queries_(queries),
      count_(count),
      options_(options),
      by_signs_(by_signs),
      context_(context),
      step_(index.rowStep()),
      sign_stride_(index.sign_stride_),
      coarse_step_(roundedUp(step_, kCoarseStep)),
      signs_(context.arena.take<uint8_t>(count * sign_stride_)),
      scales_(context.arena.take(count)),
      errors_(context.arena.take(count)) {
  Arena& arena = context.arena;
  if (index.form_ == VectorForm::kInt8) integers_ = arena.take<int16_t>(count * step_);
  if (index.form_ == VectorForm::kFloat32) floats_ = arena.take(count * step_);
  if (index.form_ == VectorForm::kInt8 && !by_signs && count >= kLeastCoarse && coarseLevels() > 0) {
    const Index padded = roundedUp(count, kCoarseQueries);
    coarse_ = arena.take<uint8_t>(padded * coarse_step_);
    std::fill_n(coarse_, padded * coarse_step_, uint8_t{0});
    coarse_scales_ = arena.take(padded);
    std::fill_n(coarse_scales_, padded, 0.0f);
    coarse_errors_ = arena.take(count);
  }
  for (Index q = 0; q < count; ++q) prepare(q);
}

template <>
const int16_t* VectorIndex::Scan::prepared(Index q) const {
  return integers_ + q * step_;
}

template <>
const float* VectorIndex::Scan::prepared(Index q) const {
  return floats_ + q * step_;
}

void VectorIndex::Scan::prepare(Index q) {
  const Index width = index_.width_;
  const float* from = query(q);
  float largest = 0;
  double squares = 0;
  for (Index k = 0; k < width; ++k) {
    largest = std::max(largest, std::abs(from[k]));
    squares += static_cast<double>(from[k]) * from[k];
  }
  const auto length = static_cast<float>(std::sqrt(squares));
  uint8_t* signs = signs_ + q * sign_stride_;
  std::fill_n(signs, sign_stride_, uint8_t{0});
  for (Index k = 0; k < width; ++k) {
    const int bit = index_.form_ == VectorForm::kBits ? 128 >> (k % 8) : 1 << (k % 8);
    if (from[k] > 0) signs[k / 8] |= static_cast<uint8_t>(bit);
  }
  // Rounds the query to integers from -most to most, and returns a bound on the change of a score: by the
  // Cauchy-Schwarz inequality, the norm of the difference times the norm of a row.
  const float reach = 1.001f * index_.largest_length_;
  const auto quantize = [&](int most, float& scale, const auto& write) {
    scale = largest > 0 ? largest / static_cast<float>(most) : 1;
    double error = 0;
    for (Index k = 0; k < width; ++k) {
      const float rounded = std::nearbyint(from[k] / scale);
      const double difference = from[k] - static_cast<double>(rounded) * scale;
      write(k, static_cast<int>(rounded));
      error += difference * difference;
    }
    return static_cast<float>(std::sqrt(error)) * reach;
  };
  scales_[q] = 1;
  errors_[q] = 0;  // scores of bits are exact
  if (integers_ != nullptr) {
    // The maximum at which 32-bit sums of products with entries up to 127 cannot overflow.
    const Index most = std::min<Index>(32767, std::numeric_limits<int32_t>::max() / (127 * width));
    int16_t* integers = integers_ + q * step_;
    std::fill_n(integers, step_, int16_t{0});
    const auto write = [&](Index k, int entry) { integers[k] = static_cast<int16_t>(entry); };
    errors_[q] = quantize(static_cast<int>(most), scales_[q], write) + 4e-7f * length * reach;
  }
  if (coarse_ != nullptr) {
    const int levels = coarseLevels();
    uint8_t* const call = coarse_ + q / kCoarseQueries * kCoarseQueries * coarse_step_;
    const auto write = [&](Index k, int entry) {
      call[coarsePlace(q % kCoarseQueries, k)] = static_cast<uint8_t>(entry + levels + 1);
    };
    coarse_errors_[q] = errors_[q] + quantize(levels, coarse_scales_[q], write);
  }
  if (floats_ != nullptr) {
    // Scaled by a power of 2, so that products of tiny entries do not underflow.
    const float scale = largest > 0 ? std::ldexp(1.0f, std::ilogb(largest)) : 1;
    float* floats = floats_ + q * step_;
    for (Index k = 0; k < step_; ++k) floats[k] = k < width ? from[k] / scale : 0;
    scales_[q] = scale;
    errors_[q] = 6e-8f * static_cast<float>(width + 8) * length * reach;
  }
}

Best* VectorIndex::Scan::makeBest(Index count) const {
  const Index room = std::min(options_.top_k, index_.count());
  Best* const best = context_.arena.take<Best>(count);
  for (Index i = 0; i < count; ++i) {
    const float limit = room > 0 ? options_.thresholds[i % count_] : std::numeric_limits<float>::infinity();
    best[i] = {.hits = context_.arena.take<VectorHit>(room), .room = room, .limit = limit};
  }
  return best;
}

void VectorIndex::Scan::add(Index q, Index row, Best& best) const {
  // Many rows may have the same score as the worst of the hits, such as copies of one row, whose exact scores would
  // take longer than the scan.
  const bool is_copy = best.size > 0 && index_.areEqual(row, best.hits->row);
  best.add({row, is_copy ? best.hits->score : index_.score(query(q), row)});
}

Best* VectorIndex::Scan::run() const {
  const auto blocks = static_cast<Index>(index_.blocks_.size());
  const Index tasks = std::max<Index>(1, std::min(blocks, context_.executor.threads()));
  const auto each = [&](const auto& visit) {
    context_.executor.run(tasks, context_, [&](Index task, Context&) {
      for (Index block = task * blocks / tasks; block < (task + 1) * blocks / tasks; ++block)
        visit(block, task * count_);
    });
  };
  if (!by_signs_) {
    Best* const best = makeBest(tasks * count_);
    each([&](Index block, Index first) { scanBlock(block, best + first); });
    for (Index i = count_; i < tasks * count_; ++i) {
      for (const VectorHit* hit = best[i].hits; hit != best[i].hits + best[i].size; ++hit) best[i % count_].add(*hit);
    }
    return best;
  }

  Best* const best = makeBest(count_);
  const Arena::Scope scope(context_.arena);
  Nearest* const nearest = context_.arena.take<Nearest>(tasks * count_);
  const Index candidates = std::min(options_.candidates, index_.count());
  for (Index i = 0; i < tasks * count_; ++i) new (nearest + i) Nearest(candidates, index_.width_, context_.arena);
  each([&](Index block, Index first) { compareSigns(block, nearest + first); });
  Index* const rows = context_.arena.take<Index>(candidates);
  for (Index q = 0; q < count_; ++q) {
    for (Index i = q + count_; i < tasks * count_; i += count_) {
      for (const Nearest::Row& row : nearest[i].take()) nearest[q].add(row);
    }
    Index count = 0;
    for (const Nearest::Row& row : nearest[q].take()) rows[count++] = row.row;
    score(q, rows, count, best[q]);
  }
  return best;
}

void VectorIndex::Scan::scanBlock(Index block, Best* best) const {
  if (coarse_ != nullptr) return scanCoarse(block, best);
  const Index end = std::min(index_.count(), (block + 1) * kRowsPerBlock);
  for (Index first = block * kRowsPerBlock; first < end; first += kRowsPerCall) {
    const Index rows = std::min(kRowsPerCall, end - first);
    if (integers_ != nullptr)
      multiply<int8_t, int32_t>(first, rows, best);
    else if (floats_ != nullptr)
      multiply<float, float>(first, rows, best);
    else
      scoreRows(first, rows, best);
  }
}

void VectorIndex::Scan::scanCoarse(Index block, Best* best) const {
  int32_t sums[kRowsPerCall][kCoarseQueries], offsets[kRowsPerCall];
  float limits[kCoarseQueries];
  CoarsePair selected[kRowsPerCall * kCoarseQueries];
  // Rows that their coarse scores do not exclude are scored four at a time.
  struct {
    Index rows[4], count = 0;
  } waiting[kQueriesPerPass];
  const Index end = std::min(index_.count(), (block + 1) * kRowsPerBlock);
  for (Index first = block * kRowsPerBlock; first < end; first += kRowsPerCall) {
    const Index count = std::min(kRowsPerCall, end - first);
    for (Index n = 0; n < count; ++n) offsets[n] = -(coarseLevels() + 1) * index_.sums_[static_cast<size_t>(first + n)];
    for (Index q = 0; q < count_; q += kCoarseQueries) {
      const Index queries = std::min(kCoarseQueries, count_ - q);
      std::fill_n(limits, kCoarseQueries, std::numeric_limits<float>::infinity());
      for (Index i = 0; i < queries; ++i) limits[i] = best[q + i].limit - coarse_errors_[q + i];
      coarseProducts(rows<int8_t>(first), count, step_, coarse_ + q * coarse_step_, sums);
      const Index pairs =
          selectCoarse(sums, count, offsets, index_.factors_.data() + first, coarse_scales_ + q, limits, selected);
      for (Index i = 0; i < pairs; ++i) {
        const Index query = q + selected[i].query, row = first + selected[i].row;
        auto& own = waiting[query];
        if (isAllowed(row)) own.rows[own.count++] = row;
        if (own.count == 4) score(query, own.rows, std::exchange(own.count, 0), best[query]);
      }
    }
  }
  for (Index q = 0; q < count_; ++q) score(q, waiting[q].rows, waiting[q].count, best[q]);
}

void VectorIndex::Scan::compareSigns(Index block, Nearest* nearest) const {
  const auto& blocks = index_.form_ == VectorForm::kBits ? index_.blocks_ : index_.signs_;
  const Index end = std::min(index_.count(), (block + 1) * kRowsPerBlock);
  Selected<int32_t> selected;
  for (Index first = block * kRowsPerBlock; first < end; first += kRowsPerCall) {
    const auto* codes = reinterpret_cast<const uint8_t*>(at(blocks, sign_stride_, first));
    for (Index q = 0; q < count_; ++q) {
      selectNear(codes, std::min(kRowsPerCall, end - first), sign_stride_, signs_ + q * sign_stride_,
                 nearest[q].limit(), selected);
      for (Index i = 0; i < selected.count; ++i) {
        const Index row = first + selected.rows[i];
        if (isAllowed(row)) nearest[q].add({row, selected.values[i]});
      }
    }
  }
}

template <class Entry, class Sum>
void VectorIndex::Scan::multiply(Index first, Index rows, Best* best) const {
  using Query = std::conditional_t<std::is_same_v<Entry, float>, float, int16_t>;
  Sum sums[kQueriesPerCall][kRowsPerCall];
  Selected<float> selected;
  for (Index q = 0; q < count_; q += kQueriesPerCall) {
    const Index queries = std::min(kQueriesPerCall, count_ - q);
    vectorProducts(this->rows<Entry>(first), rows, step_, prepared<Query>(q), queries, sums);
    for (Index i = q; i < q + queries; ++i) {
      selectScores(sums[i - q], rows, index_.factors_.data() + first, scales_[i], limit(i, best[i]), selected);
      for (Index n = 0; n < selected.count; ++n) {
        const Index row = first + selected.rows[n];
        if (isAllowed(row) && selected.values[n] >= limit(i, best[i])) add(i, row, best[i]);
      }
    }
  }
}

void VectorIndex::Scan::scoreRows(Index first, Index rows, Best* best) const {
  for (Index n = first; n < first + rows; ++n) {
    for (Index q = 0; q < count_ && isAllowed(n); ++q) best[q].add({n, index_.score(query(q), n)});
  }
}

void VectorIndex::Scan::score(Index q, const Index* rows, Index count, Best& best) const {
  if (integers_ != nullptr) return multiplyEach<int8_t, int32_t>(q, rows, count, best);
  if (floats_ != nullptr) return multiplyEach<float, float>(q, rows, count, best);
  for (Index i = 0; i < count; ++i) best.add({rows[i], index_.score(query(q), rows[i])});
}

template <class Entry, class Sum>
void VectorIndex::Scan::multiplyEach(Index q, const Index* rows, Index count, Best& best) const {
  using Query = std::conditional_t<std::is_same_v<Entry, float>, float, int16_t>;
  for (Index i = 0; i < count; i += 4) {
    const auto at = [&](Index n) { return this->rows<Entry>(rows[std::min(i + n, count - 1)]); };
    const Entry* const four[4] = {at(0), at(1), at(2), at(3)};
    Sum sums[4];
    fourProducts(four, step_, prepared<Query>(q), sums);
    for (Index n = i; n < std::min(i + 4, count); ++n) {
      // Same arithmetic as in selectScores().
      const float scaled = static_cast<float>(sums[n - i]) * scales_[q];
      if (scaled * index_.factors_[static_cast<size_t>(rows[n])] >= limit(q, best)) add(q, rows[n], best);
    }
  }
}

}  // namespace heed
