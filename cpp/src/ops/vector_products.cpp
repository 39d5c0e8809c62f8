/// Products of queries with rows of integers or floats, and Hamming distances of signs.
#include "ops/vector_products.h"

#include <algorithm>

#include "gemm/simd.h"

namespace heed {
namespace {

/// The sums of the lanes of four vectors.
template <class Add>
v128_t laneSums(const v128_t (&x)[4], const Add& add) {
  const v128_t ab = add(wasm_i32x4_shuffle(x[0], x[1], 0, 4, 2, 6), wasm_i32x4_shuffle(x[0], x[1], 1, 5, 3, 7));
  const v128_t cd = add(wasm_i32x4_shuffle(x[2], x[3], 0, 4, 2, 6), wasm_i32x4_shuffle(x[2], x[3], 1, 5, 3, 7));
  return add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

/// Multiplies eight entries at a time: entries of rows are widened to 16 bits, and each lane adds two products.
struct IntegerProducts {
  using Row = int8_t;
  using Query = int16_t;
  using Sum = int32_t;
  static constexpr Index kEntries = 8;
  static v128_t loadRow(const Row* from) { return wasm_i16x8_load8x8(from); }
  static v128_t addProducts(v128_t sums, v128_t x, v128_t y) { return add(sums, wasm_i32x4_dot_i16x8(x, y)); }
  static v128_t add(v128_t a, v128_t b) { return wasm_i32x4_add(a, b); }
};

struct FloatProducts {
  using Row = float;
  using Query = float;
  using Sum = float;
  static constexpr Index kEntries = 4;
  static v128_t loadRow(const Row* from) { return simd::load(from); }
  static v128_t addProducts(v128_t sums, v128_t x, v128_t y) { return simd::multiplyAdd(x, y, sums); }
  static v128_t add(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
};

/// Four rows times Q queries. The sums stay in registers.
template <class P, int Q>
[[gnu::noinline]] void fourRows(const typename P::Row* row0, const typename P::Row* row1, const typename P::Row* row2,
                                const typename P::Row* row3, Index stride, const typename P::Query* query,
                                typename P::Sum* sums, Index sum_step) {
  const typename P::Row* const rows[4] = {row0, row1, row2, row3};
  v128_t totals[Q][4] = {};
  for (Index k = 0; k < stride; k += P::kEntries) {
    v128_t y[Q];
    HEED_UNROLL
    for (int q = 0; q < Q; ++q) y[q] = simd::load(query + q * stride + k);
    HEED_UNROLL
    for (int r = 0; r < 4; ++r) {
      const v128_t x = P::loadRow(rows[r] + k);
      HEED_UNROLL
      for (int q = 0; q < Q; ++q) totals[q][r] = P::addProducts(totals[q][r], x, y[q]);
    }
  }
  HEED_UNROLL
  for (int q = 0; q < Q; ++q) simd::store(sums + q * sum_step, laneSums(totals[q], P::add));
}

template <class P, int Q>
void multiplyRows(const typename P::Row* rows, Index count, Index stride, const typename P::Query* query,
                  typename P::Sum (*sums)[kRowsPerCall]) {
  for (Index n = 0; n < count; n += 4) {
    const auto row = [&](Index r) { return rows + std::min(n + r, count - 1) * stride; };
    fourRows<P, Q>(row(0), row(1), row(2), row(3), stride, query, &sums[0][n], kRowsPerCall);
  }
}

template <class P>
void multiplyQueries(const typename P::Row* rows, Index count, Index stride, const typename P::Query* query,
                     Index queries, typename P::Sum (*sums)[kRowsPerCall]) {
  static_assert(kQueriesPerCall == 2);
  if (queries == 1) return multiplyRows<P, 1>(rows, count, stride, query, sums);
  multiplyRows<P, 2>(rows, count, stride, query, sums);
}

/// Eight products in double precision, added to four sums of two lanes each.
void addExact(const v128_t (&row)[2], const float* query, v128_t (&sums)[4]) {
  HEED_UNROLL
  for (int i = 0; i < 2; ++i) {
    const v128_t x = row[i], y = simd::load(query + 4 * i);
    const v128_t high_x = wasm_i64x2_shuffle(x, x, 1, 1), high_y = wasm_i64x2_shuffle(y, y, 1, 1);
    const auto add = [](v128_t& sum, v128_t a, v128_t b) {
      sum = wasm_f64x2_add(sum, wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b)));
    };
    add(sums[2 * i], x, y);
    add(sums[2 * i + 1], high_x, high_y);
  }
}

/// `load8(k)`: entries [k, k + 8) of the row as floats.
template <class Load8>
double exact(Index width, const float* query, const Load8& load8) {
  v128_t sums[4] = {};
  for (Index k = 0; k < width; k += 8) {
    v128_t row[2];
    load8(k, row);
    if (k + 8 <= width) {
      addExact(row, query + k, sums);
      continue;
    }
    float rest[8] = {};
    std::copy_n(query + k, width - k, rest);
    addExact(row, rest, sums);
  }
  const v128_t sum = wasm_f64x2_add(wasm_f64x2_add(sums[0], sums[1]), wasm_f64x2_add(sums[2], sums[3]));
  return wasm_f64x2_extract_lane(sum, 0) + wasm_f64x2_extract_lane(sum, 1);
}

/// Selects those of the four rows starting at `first` that `mask` marks and that are before row `count`.
template <class T>
void select(v128_t mask, v128_t values, Index first, Index count, Selected<T>& selected) {
  const int bits = wasm_i32x4_bitmask(mask);
  if (bits == 0) return;
  T four[4];
  simd::store(four, values);
  for (int i = 0; i < 4 && first + i < count; ++i) {
    if ((bits >> i & 1) == 0) continue;
    selected.rows[selected.count] = first + i;
    selected.values[selected.count++] = four[i];
  }
}

template <class Sum, class Convert>
void selectSums(const Sum* sums, Index count, const float* factors, float scale, float limit, const Convert& convert,
                Selected<float>& selected) {
  const v128_t scales = simd::splat(scale), limits = simd::splat(limit);
  float last[4] = {};
  selected.count = 0;
  for (Index n = 0; n < count; n += 4, factors += 4) {
    if (n + 4 > count) {
      std::copy_n(factors, count - n, last);
      factors = last;
    }
    const v128_t scaled = wasm_f32x4_mul(convert(simd::load(sums + n)), scales);
    const v128_t scores = wasm_f32x4_mul(scaled, simd::load(factors));
    select(wasm_f32x4_ge(scores, limits), scores, n, count, selected);
  }
}

/// The number of bits in which a and b differ, as four partial sums.
v128_t differences(const uint8_t* a, const uint8_t* b, Index stride) {
  v128_t total = wasm_i32x4_splat(0);
  for (Index k = 0; k < stride;) {
    // Bit counts per byte of up to 31 vectors: at most 248, which fits into a byte.
    v128_t ones = wasm_i32x4_splat(0);
    for (const Index end = std::min(stride, k + 31 * kStrideStep); k < end; k += kStrideStep)
      ones = wasm_i8x16_add(ones, wasm_i8x16_popcnt(wasm_v128_xor(simd::load(a + k), simd::load(b + k))));
    total = wasm_i32x4_add(total, wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(ones)));
  }
  return total;
}

}  // namespace

void vectorProducts(const int8_t* rows, Index count, Index stride, const int16_t* query, Index queries,
                    int32_t (*sums)[kRowsPerCall]) {
  multiplyQueries<IntegerProducts>(rows, count, stride, query, queries, sums);
}

void vectorProducts(const float* rows, Index count, Index stride, const float* query, Index queries,
                    float (*sums)[kRowsPerCall]) {
  multiplyQueries<FloatProducts>(rows, count, stride, query, queries, sums);
}

void fourProducts(const int8_t* const (&rows)[4], Index stride, const int16_t* query, int32_t (&sums)[4]) {
  fourRows<IntegerProducts, 1>(rows[0], rows[1], rows[2], rows[3], stride, query, sums, 4);
}

void fourProducts(const float* const (&rows)[4], Index stride, const float* query, float (&sums)[4]) {
  fourRows<FloatProducts, 1>(rows[0], rows[1], rows[2], rows[3], stride, query, sums, 4);
}

double exactProduct(const int8_t* row, const float* query, Index width) {
  return exact(width, query, [row](Index k, v128_t(&to)[2]) {
    const v128_t eight = wasm_i16x8_load8x8(row + k);
    to[0] = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(eight));
    to[1] = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(eight));
  });
}

double exactProduct(const float* row, const float* query, Index width) {
  return exact(width, query, [row](Index k, v128_t(&to)[2]) {
    to[0] = simd::load(row + k);
    to[1] = simd::load(row + k + 4);
  });
}

bool equalBytes(const std::byte* a, const std::byte* b, Index stride) {
  for (Index k = 0; k < stride; k += kStrideStep) {
    if (wasm_v128_any_true(wasm_v128_xor(simd::load(a + k), simd::load(b + k)))) return false;
  }
  return true;
}

#if defined(HEED_RELAXED_SIMD)
namespace {

/// Adds the products of 32 entries. Without a dot product instruction L is 31, and four products fit into 16 bits:
/// 4 * 63 * 127 < 2^15.
template <bool kHasDot>
v128_t addCoarse(v128_t sums, const v128_t (&x)[2], const uint8_t* query, v128_t ones) {
  const v128_t y[2] = {simd::load(query), simd::load(query + 16)};
  if constexpr (kHasDot) return simd::dot4Add(x[1], y[1], simd::dot4Add(x[0], y[0], sums));
  const v128_t pairs = wasm_i16x8_add(simd::dot2(x[0], y[0]), simd::dot2(x[1], y[1]));
  return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(pairs, ones));
}

/// One row times all queries. The sums and the row's entries stay in registers.
template <bool kHasDot>
[[gnu::noinline]] void coarseRow(const int8_t* row, Index stride, const uint8_t* queries, int32_t* sums, v128_t ones) {
  v128_t totals[kCoarseQueries] = {};
  for (Index k = 0; k < stride; k += kCoarseStep, queries += kCoarseQueries * kCoarseStep) {
    const v128_t x[2] = {simd::load(row + k), simd::load(row + k + 16)};
    HEED_UNROLL
    for (int q = 0; q < kCoarseQueries; ++q)
      totals[q] = addCoarse<kHasDot>(totals[q], x, queries + q * kCoarseStep, ones);
  }
  HEED_UNROLL
  for (int q = 0; q < kCoarseQueries; q += 4) {
    const v128_t four[4] = {totals[q], totals[q + 1], totals[q + 2], totals[q + 3]};
    simd::store(sums + q, laneSums(four, IntegerProducts::add));
  }
}

template <bool kHasDot>
void multiplyCoarse(const int8_t* rows, Index count, Index stride, const uint8_t* queries,
                    int32_t (*sums)[kCoarseQueries]) {
  const v128_t ones = simd::opaqueSplat(0x00010001);
  for (Index n = 0; n < count; ++n) coarseRow<kHasDot>(rows + n * stride, stride, queries, sums[n], ones);
}

}  // namespace

int coarseLevels() { return simd::hasDot() ? 63 : 31; }

void coarseProducts(const int8_t* rows, Index count, Index stride, const uint8_t* queries,
                    int32_t (*sums)[kCoarseQueries]) {
  (simd::hasDot() ? multiplyCoarse<true> : multiplyCoarse<false>)(rows, count, stride, queries, sums);
}
#else
int coarseLevels() { return 0; }

void coarseProducts(const int8_t*, Index, Index, const uint8_t*, int32_t (*)[kCoarseQueries]) {}
#endif

Index selectCoarse(const int32_t (*sums)[kCoarseQueries], Index count, const int32_t* offsets, const float* factors,
                   const float* scales, const float* limits, CoarsePair* selected) {
  constexpr int kVectors = kCoarseQueries / 4;
  v128_t scale[kVectors], limit[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    scale[i] = simd::load(scales + 4 * i);
    limit[i] = simd::load(limits + 4 * i);
  }
  CoarsePair* to = selected;
  for (Index n = 0; n < count; ++n) {
    const v128_t offset = wasm_i32x4_splat(offsets[n]), factor = simd::splat(factors[n]);
    v128_t reached[kVectors];
    HEED_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const v128_t sum = wasm_i32x4_add(simd::load(sums[n] + 4 * i), offset);
      const v128_t score = wasm_f32x4_mul(wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), scale[i]), factor);
      reached[i] = wasm_f32x4_ge(score, limit[i]);
    }
    if (!wasm_v128_any_true(wasm_v128_or(reached[0], reached[1]))) continue;
    for (int i = 0; i < kVectors; ++i) {
      const int bits = wasm_i32x4_bitmask(reached[i]);
      for (int q = 0; q < 4; ++q) {
        if ((bits >> q & 1) != 0) *to++ = {n, 4 * i + q};
      }
    }
  }
  return static_cast<Index>(to - selected);
}

void selectScores(const int32_t* sums, Index count, const float* factors, float scale, float limit,
                  Selected<float>& selected) {
  const auto convert = [](v128_t x) { return wasm_f32x4_convert_i32x4(x); };
  selectSums(sums, count, factors, scale, limit, convert, selected);
}

void selectScores(const float* sums, Index count, const float* factors, float scale, float limit,
                  Selected<float>& selected) {
  selectSums(sums, count, factors, scale, limit, [](v128_t x) { return x; }, selected);
}

void selectNear(const uint8_t* rows, Index count, Index stride, const uint8_t* query, int32_t limit,
                Selected<int32_t>& selected) {
  const v128_t limits = wasm_i32x4_splat(limit);
  selected.count = 0;
  for (Index n = 0; n < count; n += 4) {
    v128_t totals[4];
    HEED_UNROLL
    for (int r = 0; r < 4; ++r) totals[r] = differences(rows + std::min(n + r, count - 1) * stride, query, stride);
    const v128_t distances = laneSums(totals, IntegerProducts::add);
    select(wasm_i32x4_le(distances, limits), distances, n, count, selected);
  }
}

void packSigns(const int8_t* row, Index stride, uint8_t* signs) {
  for (Index k = 0; k < stride; k += 16) {
    const int bits = wasm_i8x16_bitmask(wasm_i8x16_gt(simd::load(row + k), wasm_i8x16_splat(0)));
    *signs++ = static_cast<uint8_t>(bits);
    *signs++ = static_cast<uint8_t>(bits >> 8);
  }
}

void packSigns(const float* row, Index stride, uint8_t* signs) {
  for (Index k = 0; k < stride; ++k) {
    if (k % 8 == 0) signs[k / 8] = 0;
    if (row[k] > 0) signs[k / 8] |= static_cast<uint8_t>(1 << (k % 8));
  }
}

}  // namespace heed
