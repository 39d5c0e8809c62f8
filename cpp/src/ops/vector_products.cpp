/// Products of queries with rows of int8, and Hamming distances of signs.
#include "ops/vector_products.h"

#include <algorithm>

#include "gemm/simd.h"

namespace heed {
namespace {

/// The sums of the lanes of four vectors of integers.
v128_t laneSums(const v128_t (&x)[4]) {
  const v128_t ab =
      wasm_i32x4_add(wasm_i32x4_shuffle(x[0], x[1], 0, 4, 2, 6), wasm_i32x4_shuffle(x[0], x[1], 1, 5, 3, 7));
  const v128_t cd =
      wasm_i32x4_add(wasm_i32x4_shuffle(x[2], x[3], 0, 4, 2, 6), wasm_i32x4_shuffle(x[2], x[3], 1, 5, 3, 7));
  return wasm_i32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

/// Four rows times Q queries, eight entries at a time: those of the rows are widened to 16 bits, and two products are
/// added in each lane of 32 bits. The sums stay in registers.
template <int Q>
[[gnu::noinline]] void fourRows(const int8_t* rows, Index row_step, Index stride, const int16_t* query, int32_t* sums,
                                Index sum_step) {
  v128_t totals[Q][4];
  HEED_UNROLL
  for (int q = 0; q < Q; ++q) {
    HEED_UNROLL
    for (int r = 0; r < 4; ++r) totals[q][r] = wasm_i32x4_splat(0);
  }
  for (Index k = 0; k < stride; k += 8) {
    v128_t y[Q];
    HEED_UNROLL
    for (int q = 0; q < Q; ++q) y[q] = simd::load(query + q * stride + k);
    HEED_UNROLL
    for (int r = 0; r < 4; ++r) {
      const v128_t x = wasm_i16x8_load8x8(rows + r * row_step + k);
      HEED_UNROLL
      for (int q = 0; q < Q; ++q) totals[q][r] = wasm_i32x4_add(totals[q][r], wasm_i32x4_dot_i16x8(x, y[q]));
    }
  }
  HEED_UNROLL
  for (int q = 0; q < Q; ++q) simd::store(sums + q * sum_step, laneSums(totals[q]));
}

template <int Q>
void multiplyRows(const int8_t* rows, Index count, Index stride, const int16_t* query, int32_t (*sums)[kRowsPerCall]) {
  Index n = 0;
  for (; n + 4 <= count; n += 4) fourRows<Q>(rows + n * stride, stride, stride, query, &sums[0][n], kRowsPerCall);
  for (; n < count; ++n) {
    int32_t same[Q][4];  // of one row, four times
    fourRows<Q>(rows + n * stride, 0, stride, query, &same[0][0], 4);
    for (int q = 0; q < Q; ++q) sums[q][n] = same[q][0];
  }
}

}  // namespace

void int8Products(const int8_t* rows, Index count, Index stride, const int16_t* query, Index queries,
                  int32_t (*sums)[kRowsPerCall]) {
  static_assert(kQueriesPerCall == 2);
  if (queries == 1) return multiplyRows<1>(rows, count, stride, query, sums);
  multiplyRows<2>(rows, count, stride, query, sums);
}

void hammingDistances(const uint8_t* rows, Index count, Index stride, const uint8_t* query, int32_t* distances) {
  for (Index n = 0; n < count; ++n, rows += stride) {
    v128_t total = wasm_i32x4_splat(0);
    for (Index k = 0; k < stride;) {
      // The ones of each byte of up to 31 vectors: at most 248, so that a byte holds them.
      v128_t ones = wasm_i32x4_splat(0);
      for (const Index end = std::min(stride, k + 31 * kStrideStep); k < end; k += kStrideStep)
        ones = wasm_i8x16_add(ones, wasm_i8x16_popcnt(wasm_v128_xor(simd::load(rows + k), simd::load(query + k))));
      total = wasm_i32x4_add(total, wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(ones)));
    }
    total = wasm_i32x4_add(total, wasm_i32x4_shuffle(total, total, 2, 3, 0, 1));
    total = wasm_i32x4_add(total, wasm_i32x4_shuffle(total, total, 1, 0, 3, 2));
    distances[n] = wasm_i32x4_extract_lane(total, 0);
  }
}

bool scaleScores(const int32_t* sums, Index count, const float* factors, float scale, float limit, float* scores) {
  const v128_t scales = simd::splat(scale), limits = simd::splat(limit);
  v128_t reached = wasm_i32x4_splat(0);
  Index n = 0;
  for (; n + 4 <= count; n += 4) {
    const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(simd::load(sums + n)), scales);
    const v128_t x = wasm_f32x4_mul(scaled, simd::load(factors + n));
    simd::store(scores + n, x);
    reached = wasm_v128_or(reached, wasm_f32x4_ge(x, limits));
  }
  bool any = wasm_v128_any_true(reached);
  for (; n < count; ++n) {
    scores[n] = static_cast<float>(sums[n]) * scale * factors[n];
    any |= scores[n] >= limit;
  }
  return any;
}

void packSigns(const int8_t* row, Index stride, uint8_t* signs) {
  for (Index k = 0; k < stride; k += 16) {
    const int bits = wasm_i8x16_bitmask(wasm_i8x16_gt(simd::load(row + k), wasm_i8x16_splat(0)));
    *signs++ = static_cast<uint8_t>(bits);
    *signs++ = static_cast<uint8_t>(bits >> 8);
  }
}

}  // namespace heed
