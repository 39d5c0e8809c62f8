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

void Float32Weight::multiply(const LeftChunk& left, const Product& product, Range panels, float* sums) const {
  multiplyChunk(Float32Format{*this}, left, product, panels, sums);
}

}  // namespace heed
