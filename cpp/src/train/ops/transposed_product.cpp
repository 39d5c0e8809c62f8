/// C += A^T B, the product of gradients with respect to a right operand. Columns of A are read directly as the rows of
/// the left operand: the values of a row block at one k-step are neighbours in a row of A.
#include "train/ops/transposed_product.h"

#include <array>
#include <cstring>

#include "gemm/driver.h"
#include "gemm/row_blocks.h"

namespace heed::train {
namespace {

/// A sink that adds the sums to the output.
struct AddedRows {
  float* out;
  Index stride;
  Index columns;

  /// Panels beyond the last column go through a buffer, as in attention_products.cpp.
  template <int R, int P>
  void write(Index panel, const v128_t (&sums)[R][2 * P]) const {
    float buffer[R * 8 * P];
    const Index width = std::min<Index>(8 * P, columns - 8 * panel);
    const bool whole = width == 8 * P;
    float* const to = whole ? out + 8 * panel : buffer;
    const Index step = whole ? stride : 8 * P;
    if (!whole) {
      std::fill(buffer, buffer + R * 8 * P, 0.0f);
      for (int r = 0; r < R; ++r) std::copy_n(out + r * stride + 8 * panel, width, buffer + 8 * P * r);
    }
    HEED_UNROLL
    for (int r = 0; r < R; ++r) {
      HEED_UNROLL
      for (int i = 0; i < 2 * P; ++i) {
        float* four = to + r * step + 4 * i;
        simd::store(four, wasm_f32x4_add(simd::load(four), sums[r][i]));
      }
    }
    for (int r = 0; r < R && !whole; ++r) std::copy_n(buffer + 8 * P * r, width, out + r * stride + 8 * panel);
  }
};

/// A row block of A^T: columns [0, R) of `a`; value k of column r goes to to[k R + r].
template <int R>
void packColumns(const float* a, Index stride, Index rows, uint32_t* to) {
  for (Index k = 0; k < rows; ++k, a += stride, to += R) std::memcpy(to, a, R * sizeof(float));
}

void packColumns(const float* a, Index stride, Index rows, Index height, uint32_t* to) {
  static constexpr auto kHeights = []<int... kRow>(std::integer_sequence<int, kRow...>) {
    using Pack = void (*)(const float*, Index, Index, uint32_t*);
    return std::array{Pack{packColumns<kRow + 1>}...};
  }(std::make_integer_sequence<int, kBlockRows>());
  kHeights[static_cast<size_t>(height - 1)](a, stride, rows, to);
}

/// Rows of C that are computed from one packed part of A^T, and bytes of the panels of B that each row block reads
/// again: as many as fit into the second-level cache, as in gemm/chunk.h.
constexpr Index kMostRows = 128, kMostPanelBytes = 256 * 1024;

}  // namespace

void addTransposedProduct(ConstMatrixView a, const Panels& b, Index first, MatrixView out, Arena& arena) {
  const Arena::Scope scope(arena);
  const Index depth = a.rows(), chunks = (a.cols() + kMostRows - 1) / kMostRows;
  const Range k{first, first + depth};
  const Index panel_bytes = b.depth * FloatStep::kBytes;
  const Index columns_at_once = 8 * std::max<Index>(kMostPanelBytes / std::max<Index>(depth * FloatStep::kBytes, 1), 4);
  auto* words = arena.take<uint32_t>(depth * std::min(a.cols(), kMostRows));
  for (Index c = 0; c < chunks; ++c) {
    const Index begin = evenPart(a.cols(), chunks, c);
    const RowBlocks blocks(evenPart(a.cols(), chunks, c + 1) - begin);
    for (Index i = 0; i < blocks.count; ++i) {
      packColumns(a.data() + begin + blocks.begin(i), a.outerStride(), depth, blocks.height(i),
                  words + blocks.begin(i) * depth);
    }
    for (Index column = 0; column < b.columns; column += columns_at_once) {
      const Range columns{column, std::min(column + columns_at_once, b.columns)};
      for (Index i = 0; i < blocks.count; ++i) {
        float* rows = out.data() + (begin + blocks.begin(i)) * out.outerStride() + column;
        multiplyRowBlock<FloatStep>(blocks.height(i), words + blocks.begin(i) * depth,
                                    {reinterpret_cast<const std::byte*>(b.data), panel_bytes}, std::span(&k, 1),
                                    std::span(&columns, 1), AddedRows{rows, out.outerStride(), columns.count()});
      }
    }
  }
}

}  // namespace heed::train
