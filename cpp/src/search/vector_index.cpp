#include "heed/vector_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "search/scan.h"

namespace heed {
namespace {

constexpr Index kMaxDimensions = 1 << 16;

/// Resizes `blocks` to `count` rows. Kernels read up to kStrideStep bytes after the rows; these bytes and new rows are
/// zeros.
void resizeRows(std::vector<std::vector<std::byte>>& blocks, Index stride, Index count) {
  blocks.resize(static_cast<size_t>((count + kRowsPerBlock - 1) / kRowsPerBlock));
  Index first = 0;
  for (auto& block : blocks) {
    block.resize(static_cast<size_t>(std::min(kRowsPerBlock, count - first) * stride + kStrideStep));
    std::fill(block.end() - kStrideStep, block.end(), std::byte{0});
    first += kRowsPerBlock;
  }
}

}  // namespace

VectorIndex::VectorIndex(VectorForm form, Index width) : form_(form), width_(width) {
  requireRange("width", width, 1, kMaxDimensions);
  const Index bytes = form == VectorForm::kFloat32 ? Index{sizeof(float)} * width : width;
  row_bytes_ = form == VectorForm::kBits ? (width + 7) / 8 : bytes;
  stride_ = roundedUp(row_bytes_, kStrideStep);
  sign_stride_ = roundedUp((width + 7) / 8, kStrideStep);
}

const std::byte* VectorIndex::at(const std::vector<Block>& blocks, Index stride, Index n) {
  return blocks[static_cast<size_t>(n / kRowsPerBlock)].data() + n % kRowsPerBlock * stride;
}

std::byte* VectorIndex::at(std::vector<Block>& blocks, Index stride, Index n) {
  return const_cast<std::byte*>(at(std::as_const(blocks), stride, n));
}

void VectorIndex::append(const std::byte* rows, std::span<const float> factors) {
  const Index before = count(), after = before + static_cast<Index>(factors.size());
  try {
    factors_.insert(factors_.end(), factors.begin(), factors.end());
    resizeRows(blocks_, stride_, after);
    if (form_ == VectorForm::kInt8) sums_.resize(static_cast<size_t>(after));
    if (!signs_.empty()) resizeRows(signs_, sign_stride_, after);
  } catch (...) {
    truncate(before);
    throw;
  }
  for (Index n = before; n < after; ++n, rows += row_bytes_) {
    std::memcpy(at(blocks_, stride_, n), rows, static_cast<size_t>(row_bytes_));
    double squares = 0, sum = 0;
    for (Index k = 0; k < width_; ++k) {
      const double x = entry(row(n), k);
      squares += x * x;
      sum += x;
    }
    if (form_ == VectorForm::kInt8) sums_[static_cast<size_t>(n)] = static_cast<int32_t>(sum);
    const auto length = static_cast<float>(std::sqrt(squares) * std::abs(factors_[static_cast<size_t>(n)]));
    largest_length_ = std::max(largest_length_, length);
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
      if (form_ == VectorForm::kInt8) sums_[static_cast<size_t>(to)] = sums_[static_cast<size_t>(from)];
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
  if (by_signs && form_ != VectorForm::kBits && signs_.empty()) {
    std::vector<Block> made;
    resizeRows(made, sign_stride_, count());
    signs_ = std::move(made);
    packRows(0);
  }
  for (Index first = 0; first < num_queries; first += kQueriesPerPass) {
    const Arena::Scope scope(context.arena);
    VectorSearch some = options;
    some.thresholds += first;
    const Index end = std::min(num_queries, first + kQueriesPerPass);
    const Scan scan(*this, queries + first * width_, end - first, some, by_signs, context);
    Best* best = scan.run();
    for (Index q = first; q < end; ++q, ++best, hits += options.top_k) {
      counts[q] = best->size;
      std::sort_heap(best->hits, best->hits + best->size, isBetter);
      std::copy_n(best->hits, best->size, hits);
    }
  }
}

void VectorIndex::truncate(Index count) {
  factors_.resize(static_cast<size_t>(count));
  if (form_ == VectorForm::kInt8) sums_.resize(static_cast<size_t>(count));
  resizeRows(blocks_, stride_, count);
  if (!signs_.empty()) resizeRows(signs_, sign_stride_, count);
}

double VectorIndex::entry(const std::byte* row, Index k) const {
  if (form_ == VectorForm::kInt8) return reinterpret_cast<const int8_t*>(row)[k];
  if (form_ == VectorForm::kFloat32) return reinterpret_cast<const float*>(row)[k];
  return (static_cast<int>(row[k / 8]) & (128 >> (k % 8))) != 0 ? 1 : -1;
}

float VectorIndex::score(const float* query, Index n) const {
  const std::byte* own = row(n);
  double sum = 0;
  if (form_ == VectorForm::kInt8) {
    sum = exactProduct(reinterpret_cast<const int8_t*>(own), query, width_);
  } else if (form_ == VectorForm::kFloat32) {
    sum = exactProduct(reinterpret_cast<const float*>(own), query, width_);
  } else {
    for (Index k = 0; k < width_; ++k) sum += query[k] * entry(own, k);
  }
  return static_cast<float>(sum * factors_[static_cast<size_t>(n)]);
}

bool VectorIndex::areEqual(Index a, Index b) const {
  return factors_[static_cast<size_t>(a)] == factors_[static_cast<size_t>(b)] && equalBytes(row(a), row(b), stride_);
}

void VectorIndex::packRows(Index first) {
  for (Index n = first; n < count(); ++n) {
    auto* signs = reinterpret_cast<uint8_t*>(at(signs_, sign_stride_, n));
    if (form_ == VectorForm::kFloat32)
      packSigns(reinterpret_cast<const float*>(row(n)), rowStep(), signs);
    else
      packSigns(reinterpret_cast<const int8_t*>(row(n)), stride_, signs);
  }
}

}  // namespace heed
