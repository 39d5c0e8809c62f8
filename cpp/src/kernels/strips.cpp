#include "kernels/strips.h"

#include <algorithm>
#include <cstring>

#include "ops/elementwise.h"

namespace heed {

namespace {

/// Four rows at once, by transposing.
void interleave4(const float* row, Index stride, Index count, Index height, uint32_t* to) {
  for (Index i = 0; i < count; i += 4, row += 4, to += 4 * height) {
    v128_t rows[4] = {simd::load(row), simd::load(row + stride), simd::load(row + 2 * stride),
                      simd::load(row + 3 * stride)};
    simd::transpose4x4(rows);
    HEED_UNROLL
    for (int r = 0; r < 4; ++r) simd::store(to + r * height, rows[r]);
  }
}

/// Two rows at once.
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

RowQuantization rangeOf(const float* x, Index count) {
  if (count == 0) return {0, 0};
  constexpr int kChains = 4;
  v128_t least[kChains], greatest[kChains], sum[kChains];
  for (int i = 0; i < kChains; ++i) {
    least[i] = greatest[i] = simd::splat(x[0]);
    sum[i] = simd::splat(0);
  }
  Index k = 0;
  for (; k + 4 * kChains <= count; k += 4 * kChains) {
    HEED_UNROLL
    for (int i = 0; i < kChains; ++i) {
      const v128_t four = simd::load(x + k + 4 * i);
      least[i] = simd::minimum(least[i], four);
      greatest[i] = simd::maximum(greatest[i], four);
      sum[i] = wasm_f32x4_add(sum[i], four);
    }
  }
  for (int i = 1; i < kChains; ++i) {
    least[0] = simd::minimum(least[0], least[i]);
    greatest[0] = simd::maximum(greatest[0], greatest[i]);
    sum[0] = wasm_f32x4_add(sum[0], sum[i]);
  }
  float low = simd::horizontalMinimum(least[0]), high = simd::horizontalMaximum(greatest[0]),
        total = simd::horizontalSum(sum[0]);
  for (; k < count; ++k) {
    low = std::min(low, x[k]);
    high = std::max(high, x[k]);
    total += x[k];
  }
  // 0 * total is 0, or NaN where a value was not finite: the row must not come out as if nothing had happened.
  return {(high - low) / 127 + 0 * total, low};
}

/// 16 floats -> integers in 0..127. Adding 1.5 2^23 rounds; fused or not must not matter, so nothing is fused.
void quantize16(const float* x, v128_t offset, v128_t inverse, uint32_t* to) {
  const v128_t rounder = simd::constant<12582912.0f>();
  v128_t q[4];
  HEED_UNROLL
  for (int i = 0; i < 4; ++i) {
    const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_sub(simd::load(x + 4 * i), offset), inverse);
    q[i] = wasm_i32x4_sub(wasm_f32x4_add(scaled, rounder), rounder);
  }
  const v128_t low = wasm_i16x8_narrow_i32x4(q[0], q[1]), high = wasm_i16x8_narrow_i32x4(q[2], q[3]);
  if constexpr (kInt8Group == 4) {
    simd::store(to, wasm_u8x16_narrow_i16x8(low, high));
  } else {
    simd::store(to, low);
    simd::store(to + 4, high);
  }
}

/// A row's units, kInt8Together values at every `stride`-th place.
void quantizeRow(const float* x, Index count, const RowQuantization& row, Index stride, uint32_t* to) {
  const v128_t offset = simd::splat(row.offset), inverse = simd::splat(row.scale > 0 ? 1 / row.scale : 0);
  Index k = 0;
  for (; k + kInt8Together <= count; k += kInt8Together, to += stride) quantize16(x + k, offset, inverse, to);
  if (k == count) return;
  float tail[kInt8Together];
  std::fill_n(tail, kInt8Together, row.offset);
  std::copy_n(x + k, count - k, tail);
  quantize16(tail, offset, inverse, to);
}

}  // namespace

void interleave(const void* row, Index count, Index height, uint32_t* to) {
  const auto* from = static_cast<const std::byte*>(row);
  Index i = 0;
  for (; i + 4 <= count; i += 4, from += 16, to += 4 * height) {
    const v128_t four = simd::load(from);
    wasm_v128_store32_lane(to, four, 0);
    wasm_v128_store32_lane(to + height, four, 1);
    wasm_v128_store32_lane(to + 2 * height, four, 2);
    wasm_v128_store32_lane(to + 3 * height, four, 3);
  }
  for (; i < count; ++i, from += 4, to += height) std::memcpy(to, from, 4);
}

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

void packStrips(ConstMatrixView a, const Strips& strips, uint32_t* units) {
  for (Index i = 0; i < strips.count; ++i) {
    const Index begin = strips.begin(i), height = strips.begin(i + 1) - begin;
    interleaveRows(a.data() + begin * a.outerStride(), a.outerStride(), height, a.cols(), height,
                   units + begin * a.cols());
  }
}

void quantizeStrips(ConstMatrixView a, const Strips& strips, uint32_t* units, RowQuantization* rows) {
  constexpr Index kUnits = kInt8Together / kInt8Group;
  const Index steps = int8Steps(a.cols());
  for (Index i = 0; i < strips.count; ++i) {
    const Index begin = strips.begin(i), height = strips.begin(i + 1) - begin;
    for (Index r = 0; r < height; ++r) {
      const float* row = a.data() + (begin + r) * a.outerStride();
      rows[begin + r] = rangeOf(row, a.cols());
      quantizeRow(row, a.cols(), rows[begin + r], kUnits * height, units + begin * steps + kUnits * r);
    }
  }
}

}  // namespace heed
