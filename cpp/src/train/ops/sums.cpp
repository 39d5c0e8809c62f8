#include "train/ops/sums.h"

#include "gemm/simd.h"
#include "ops/elementwise.h"

namespace heed::train {
namespace {

/// sums[0, 4 N) += the sum of `rows` rows, which are first added to each other.
template <int N>
void addBlock(const float* from, Index stride, Index rows, double* sums) {
  simd::Floats<N> sum = simd::loadFloats<N>(from);
  for (Index t = 1; t < rows; ++t) sum = sum + simd::loadFloats<N>(from + t * stride);
  float values[4 * N];
  simd::store(values, sum);
  for (Index j = 0; j < 4 * N; ++j) sums[j] += static_cast<double>(values[j]);
}

}  // namespace

RowSum::RowSum(Index width) : block_(static_cast<size_t>(width)), total_(static_cast<size_t>(width)) {}

void RowSum::add(ConstMatrixView rows) {
  constexpr Index kColumns = 32;
  const Index stride = rows.outerStride(), width = rows.cols();
  for (Index first = 0; first < rows.rows(); first += kBlock) {
    const Index count = std::min(kBlock, rows.rows() - first);
    const float* from = rows.data() + first * stride;
    Index j = 0;
    for (; j + kColumns <= width; j += kColumns) addBlock<kColumns / 4>(from + j, stride, count, total_.data() + j);
    for (; j < width; ++j) {
      float sum = 0;
      for (Index t = 0; t < count; ++t) sum += from[t * stride + j];
      total_[static_cast<size_t>(j)] += static_cast<double>(sum);
    }
  }
}

void RowSum::add(const float* row) {
  addBy([&](float* sum) { accumulate(static_cast<Index>(block_.size()), row, sum); });
}

void RowSum::endBlock() {
  for (size_t i = 0; i < block_.size(); ++i) total_[i] += static_cast<double>(block_[i]);
  std::ranges::fill(block_, 0.0f);
  rows_ = 0;
}

void RowSum::addTo(float* out, double factor) {
  endBlock();
  for (size_t i = 0; i < total_.size(); ++i) out[i] += static_cast<float>(factor * total_[i]);
  std::ranges::fill(total_, 0.0);
}

ScatteredSums::ScatteredSums(MatrixView out, double terms)
    : out_(out.data()), sums_(terms > static_cast<double>(out.size()) ? static_cast<size_t>(out.size()) : 0) {}

void ScatteredSums::finish() {
  for (size_t i = 0; i < sums_.size(); ++i) out_[i] += static_cast<float>(sums_[i]);
}

}  // namespace heed::train
