#include "gemm/weights/float32.h"

#include <algorithm>
#include <cstring>

#include "gemm/chunk.h"

namespace heed {
namespace {

/// fp32 for multiplyChunk(): the sums are the products already.
struct Float32Format {
  const PackedWeight& weight;

  void multiplyPanels(const LeftChunk& left, Range panels, float* sums) const {
    multiplyRowBlocks<FloatStep>(left, left.packed, weight, panels, sums);
  }

  template <int P>
  struct Columns {
    Columns(const Float32Format&, Index) {}
    v128_t value(v128_t sum, const LeftChunk&, Index, int) const { return sum; }
  };
};

}  // namespace

Float32Weight::Float32Weight(Index out, Index in) : PackedWeight(out, in, in, FloatStep::kBytes) {}

void Float32Weight::write(Index first, Index count, const float* rows) {
  for (Index next; count > 0; first += next, count -= next, rows += next * in()) {
    next = std::min<Index>(count, 8 - first % 8);
    interleaveRows(rows, in(), next, in(), 8, reinterpret_cast<uint32_t*>(row(first)));
  }
}

void Float32Weight::writeColumns(ConstMatrixView b) {
  for (Index first = 0; first < out(); first += 8) {
    const Index count = std::min<Index>(8, out() - first);
    std::byte* to = row(first);
    for (Index k = 0; k < in(); ++k, to += stepBytes())
      std::memcpy(to, b.data() + k * b.outerStride() + first, static_cast<size_t>(count) * sizeof(float));
  }
}

void Float32Weight::writeTransposed(const Float32Weight& weight) {
  // Blocks of 8 by 8: column k of a panel becomes step k of a panel. Both are filled up with zeros.
  for (Index first = 0; first < in(); first += 8) {
    for (Index k = 0; k < out(); k += 8) {
      const auto* from = reinterpret_cast<const float*>(weight.row(first)) + 8 * k;
      auto* to = reinterpret_cast<float*>(row(k)) + 8 * first;
      if (k + 8 > out() || first + 8 > in()) {
        for (Index i = 0; i < std::min<Index>(8, in() - first); ++i) {
          for (Index j = 0; j < std::min<Index>(8, out() - k); ++j) to[8 * i + j] = from[8 * j + i];
        }
        continue;
      }
      for (Index i = 0; i < 8; i += 4) {
        for (Index j = 0; j < 8; j += 4) {
          v128_t four[4];
          HEED_UNROLL
          for (int n = 0; n < 4; ++n) four[n] = simd::load(from + 8 * (j + n) + i);
          simd::transpose4x4(four);
          HEED_UNROLL
          for (int n = 0; n < 4; ++n) simd::store(to + 8 * (i + n) + j, four[n]);
        }
      }
    }
  }
}

void Float32Weight::writeInt8(Index first, Index count, const signed char* rows, const float* scales) {
  std::vector<float> row(static_cast<size_t>(in()));
  for (Index r = 0; r < count; ++r, rows += in()) {
    std::transform(rows, rows + in(), row.begin(), [&](signed char w) { return scales[r] * static_cast<float>(w); });
    write(first + r, 1, row.data());
  }
}

void Float32Weight::read(Index first, Index count, float* rows) const {
  for (Index r = first; r < first + count; ++r) {
    const std::byte* from = row(r);
    for (Index k = 0; k < in(); ++k, from += stepBytes()) std::memcpy(rows++, from, sizeof(float));
  }
}

const LeftForm& Float32Weight::leftForm() const {
  static constexpr LeftForm kForm{[](Index rows, Index depth) { return rows * depth; }, packRows};
  return kForm;
}

void Float32Weight::multiply(const LeftChunk& left, const Product& product, float* sums) const {
  multiplyChunk(Float32Format{*this}, left, product, sums);
}

}  // namespace heed
