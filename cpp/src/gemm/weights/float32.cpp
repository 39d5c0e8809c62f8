#include "gemm/weights/float32.h"

#include <algorithm>
#include <cstring>

#include "gemm/chunk.h"

namespace heed {
namespace {

/// Maximum number of panels in a batch (panelsPerBatch()) if K exceeds kSumBlock.
constexpr Index kMaxChainPanels = kMaxPanelBytes / (kSumBlock * FloatStep::kBytes);
static_assert(kMaxChainPanels >= 8);  // the minimum

/// The fp32 Format of chunk.h: the sums already are the products.
struct Float32Format {
  const PackedWeight& weight;

  /// Stores the sums of a row block over the first chain of k, and adds those over each further chain.
  void multiplyPanels(const LeftChunk& left, Range panels, float* sums) const {
    float part[kMaxChainPanels * 8 * kBlockRows];
    const Index depth = weight.steps(), stride = 8 * left.blocks.rows;
    const PanelSpan right{weight.panel(0), weight.panelBytes()};
    const Range columns[] = {{8 * panels.begin, 8 * panels.end}};
    for (Index i = 0; i < left.blocks.count; ++i) {
      const Index height = left.blocks.height(i), size = 8 * height;
      const uint32_t* words = left.packed + left.blocks.begin(i) * depth;
      float* const own = sums + 8 * left.blocks.begin(i);
      // Runs once even if K is 0, to write zeros.
      for (Index first = 0; first == 0 || first < depth; first += kSumBlock) {
        const Range k[] = {{first, std::min(first + kSumBlock, depth)}};
        const SumsBuffer sink = first == 0 ? SumsBuffer{own, stride} : SumsBuffer{part, size};
        multiplyRowBlock<FloatStep>(height, words + first * height, right, std::span(k), columns, sink);
        for (Index p = 0; first > 0 && p < panels.count(); ++p) {
          float* to = own + p * stride;
          const float* from = part + p * size;
          for (Index j = 0; j < size; j += 4)
            simd::store(to + j, wasm_f32x4_add(simd::load(to + j), simd::load(from + j)));
        }
      }
    }
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
