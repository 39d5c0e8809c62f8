/// Values of trellis-coded rows (core/trellis.h), eight columns at a time.
#include <algorithm>

#include "core/trellis.h"
#include "gemm/simd.h"

namespace heed {
namespace {

/// The numbers of columns 8 i .. 8 i + 7, in 16 bits each. A byte of a plane has one bit of each of them.
v128_t numbersOf(const uint8_t* row, int bits, Index plane_bytes, Index i) {
  const v128_t places = wasm_i16x8_make(1, 2, 4, 8, 16, 32, 64, 128);
  v128_t numbers = wasm_i16x8_splat(0);
  for (int b = 0; b < bits; ++b) {
    const v128_t plane = wasm_v128_and(wasm_i16x8_splat(row[b * plane_bytes + i]), places);
    const v128_t bit = wasm_i16x8_splat(static_cast<int16_t>(1 << b));
    numbers = wasm_v128_or(numbers, wasm_v128_and(wasm_i16x8_eq(plane, places), bit));
  }
  return numbers;
}

/// The numbers of the columns kBack before those of `numbers`; `before` has the eight columns before them.
template <int kBack>
v128_t shifted(v128_t before, v128_t numbers) {
  return wasm_i16x8_shuffle(before, numbers, 8 - kBack, 9 - kBack, 10 - kBack, 11 - kBack, 12 - kBack, 13 - kBack,
                            14 - kBack, 15 - kBack);
}

/// The states of a sequence along the row: a state consists of the last numbers.
v128_t statesAlong(v128_t before, v128_t numbers, int bits) {
  v128_t states = wasm_v128_or(numbers, wasm_i16x8_shl(shifted<1>(before, numbers), bits));
  states = wasm_v128_or(states, wasm_i16x8_shl(shifted<2>(before, numbers), 2 * bits));
  states = wasm_v128_or(states, wasm_i16x8_shl(shifted<3>(before, numbers), 3 * bits));
  // Earlier numbers of 4 bits have left the state; a shift by 16 would be one by 0.
  if (bits == 4) return states;
  states = wasm_v128_or(states, wasm_i16x8_shl(shifted<4>(before, numbers), 4 * bits));
  if (bits == 3) return states;
  states = wasm_v128_or(states, wasm_i16x8_shl(shifted<5>(before, numbers), 10));
  return wasm_v128_or(states, wasm_i16x8_shl(shifted<6>(before, numbers), 12));
}

/// trellisLevel() of four states in 32 bits.
v128_t levelsOf(v128_t states) {
  const v128_t z = wasm_i32x4_add(wasm_i32x4_mul(states, wasm_i32x4_splat(static_cast<int32_t>(kTrellisFactor))),
                                  wasm_i32x4_splat(static_cast<int32_t>(kTrellisOffset)));
  const v128_t sums = wasm_i32x4_extadd_pairwise_i16x8(wasm_u16x8_extadd_pairwise_u8x16(z));
  return wasm_f32x4_convert_i32x4(wasm_i32x4_sub(sums, wasm_i32x4_splat(kTrellisMean)));
}

}  // namespace

void decodeTrellis(const uint8_t* row, int bits, Index width, float scale, const float* column_scales, uint16_t* states,
                   float* out) {
  const Index plane_bytes = trellisPlaneBytes(width);
  const v128_t mask = wasm_i16x8_splat(static_cast<int16_t>(kTrellisStates - 1)), factor = simd::splat(scale);
  v128_t before = wasm_i16x8_splat(0);
  for (Index i = 0; i < plane_bytes; ++i) {
    const Index first = 8 * i, count = std::min<Index>(8, width - first);
    // The last columns, if there are fewer than 8, are decoded in padded copies.
    float columns[8], values[8];
    uint16_t given[8];
    const bool is_whole = count == 8;
    const float* own_columns = column_scales + first;
    uint16_t* own_states = states ? states + first : nullptr;
    float* to = out + first;
    if (!is_whole) {
      std::fill_n(columns, 8, 0.0F);
      std::fill_n(given, 8, uint16_t{0});
      std::copy_n(own_columns, count, columns);
      own_columns = columns;
      if (states) {
        std::copy_n(own_states, count, given);
        own_states = given;
      }
      to = values;
    }
    const v128_t numbers = numbersOf(row, bits, plane_bytes, i);
    v128_t now;
    if (states) {
      now = wasm_v128_and(wasm_v128_or(wasm_i16x8_shl(simd::load(own_states), bits), numbers), mask);
      simd::store(own_states, now);
    } else {
      now = wasm_v128_and(statesAlong(before, numbers, bits), mask);
      before = numbers;
    }
    const v128_t low = levelsOf(wasm_u32x4_extend_low_u16x8(now)), high = levelsOf(wasm_u32x4_extend_high_u16x8(now));
    simd::store(to, wasm_f32x4_mul(wasm_f32x4_mul(factor, simd::load(own_columns)), low));
    simd::store(to + 4, wasm_f32x4_mul(wasm_f32x4_mul(factor, simd::load(own_columns + 4)), high));
    if (is_whole) continue;
    if (states) std::copy_n(given, count, states + first);
    std::copy_n(values, count, out + first);
  }
}

}  // namespace heed
