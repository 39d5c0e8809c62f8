#include <cstring>

#include "gemm/gemm.h"
#include "gemm/tile.h"

namespace heed {

#if defined(HEED_RELAXED_SIMD)
Index block_rows = kBlockRows;
#else
Index block_rows = 5;
#endif

void useTallRowBlocks() { block_rows = kBlockRows; }

namespace {

/// Interleaves four rows by transposing.
void interleave4(const float* row, Index stride, Index count, Index height, uint32_t* to) {
  for (Index i = 0; i < count; i += 4, row += 4, to += 4 * height) {
    v128_t rows[4] = {simd::load(row), simd::load(row + stride), simd::load(row + 2 * stride),
                      simd::load(row + 3 * stride)};
    simd::transpose4x4(rows);
    HEED_UNROLL
    for (int r = 0; r < 4; ++r) simd::store(to + r * height, rows[r]);
  }
}

/// Interleaves two rows.
void interleave2(const float* row, Index stride, Index count, Index height, uint32_t* to) {
  for (Index i = 0; i < count; i += 4, row += 4, to += 4 * height) {
    const v128_t a = simd::load(row), b = simd::load(row + stride);
    const v128_t low = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), high = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    wasm_v128_store64_lane(to, low, 0);
    wasm_v128_store64_lane(to + height, low, 1);
    wasm_v128_store64_lane(to + 2 * height, high, 0);
    wasm_v128_store64_lane(to + 3 * height, high, 1);
  }
}

/// Interleaves one row.
void interleave(const float* row, Index count, Index height, uint32_t* to) {
  Index i = 0;
  for (; i + 4 <= count; i += 4, row += 4, to += 4 * height) {
    const v128_t four = simd::load(row);
    wasm_v128_store32_lane(to, four, 0);
    wasm_v128_store32_lane(to + height, four, 1);
    wasm_v128_store32_lane(to + 2 * height, four, 2);
    wasm_v128_store32_lane(to + 3 * height, four, 3);
  }
  for (; i < count; ++i, ++row, to += height) std::memcpy(to, row, 4);
}

}  // namespace

void interleaveRows(const float* rows, Index stride, Index count, Index depth, Index height, uint32_t* to) {
  const Index whole = depth / 4 * 4;
  const auto tails = [&](Index first, Index last) {
    for (Index r = first; r < last; ++r)
      interleave(rows + r * stride + whole, depth - whole, height, to + whole * height + r);
  };
  Index r = 0;
  for (; r + 4 <= count; r += 4) {
    interleave4(rows + r * stride, stride, whole, height, to + r);
    tails(r, r + 4);
  }
  if (r + 2 <= count) {
    interleave2(rows + r * stride, stride, whole, height, to + r);
    tails(r, r + 2);
    r += 2;
  }
  if (r < count) interleave(rows + r * stride, depth, height, to + r);
}

void packRows(ConstMatrixView a, const RowBlocks& blocks, uint32_t* words) {
  for (Index i = 0; i < blocks.count; ++i) {
    const Index begin = blocks.begin(i), height = blocks.height(i);
    interleaveRows(a.data() + begin * a.outerStride(), a.outerStride(), height, a.cols(), height,
                   words + begin * a.cols());
  }
}

}  // namespace heed
