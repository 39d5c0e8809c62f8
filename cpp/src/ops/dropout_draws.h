#pragma once

#include <cmath>

#include "heed/dropout.h"
#include "ops/elementwise.h"

namespace heed {

/// The draws for one row, 16 columns at a time: philox() (heed/random.h) for four counters (block of 4 columns, row,
/// head, sequence) in lockstep. Word c mod 4 of a block belongs to column c. `sequence` and `head` are 0 for plain
/// matrices.
class DropoutDraws {
 public:
  /// `p`: the rate.
  DropoutDraws(const DropoutKey& key, float p, Index sequence, Index head, Index row)
      : limit_(wasm_i32x4_splat(static_cast<int32_t>(std::ceil(p * 0x1p24f)))),
        row_{static_cast<uint32_t>(row), static_cast<uint32_t>(head), static_cast<uint32_t>(sequence)} {
    // The step selects a Philox key, so that the counter can hold the position of the entry.
    const auto step = philox({static_cast<uint32_t>(key.step), static_cast<uint32_t>(key.step >> 32), 0, 0}, key.seed);
    low_ = step[0];
    high_ = step[1];
  }
  void setRow(Index row) {
    row_[0] = static_cast<uint32_t>(row);
    first_ = -1;
  }
  /// Whether the entry in `column` is dropped. Fastest for ascending columns.
  bool drops(Index column) {
    if (const Index first = column / 16 * 16; first != first_) {
      first_ = first;
      const simd::Floats<4> masks = dropped(first);
      HEED_UNROLL
      for (int i = 0; i < 4; ++i) simd::store(masks_ + 4 * i, masks.vectors[i]);
    }
    return masks_[column - first_] != 0;
  }

  /// The masks of columns [first, first + 16): all ones if the entry is dropped, otherwise zeros. `first` is a multiple
  /// of 4.
  simd::Floats<4> dropped(Index first) const {
    const v128_t block = wasm_i32x4_splat(static_cast<int32_t>(first / 4));
    v128_t c[4] = {wasm_i32x4_add(block, wasm_i32x4_make(0, 1, 2, 3)), splat(row_[0]), splat(row_[1]), splat(row_[2])};
    uint32_t low = low_, high = high_;
    // Volatile: LLVM would extend constants to 64 bits before the loop and then use i64x2.mul, which takes three times
    // as long.
    const volatile v128_t multipliers[] = {splat(0xd2511f53), splat(0xcd9e8d57)};
    for (int round = 0; round < 10; ++round) {
      v128_t a_low, a_high, b_low, b_high;
      multiply(multipliers[0], c[0], a_low, a_high);
      multiply(multipliers[1], c[2], b_low, b_high);
      c[0] = wasm_v128_xor(wasm_v128_xor(b_high, c[1]), splat(low));
      c[1] = b_low;
      c[2] = wasm_v128_xor(wasm_v128_xor(a_high, c[3]), splat(high));
      c[3] = a_low;
      low += 0x9e3779b9;
      high += 0xbb67ae85;
    }
    // Transposes one vector per word (of four blocks) into one vector per block.
    simd::transpose4x4(c);
    simd::Floats<4> masks;
    HEED_UNROLL
    for (int i = 0; i < 4; ++i) masks.vectors[i] = wasm_i32x4_lt(wasm_u32x4_shr(c[i], 8), limit_);
    return masks;
  }

 private:
  static v128_t splat(uint32_t x) { return wasm_i32x4_splat(static_cast<int32_t>(x)); }

  /// The low and high halves of the 64-bit products.
  static void multiply(v128_t a, v128_t b, v128_t& low, v128_t& high) {
    const v128_t first = wasm_u64x2_extmul_low_u32x4(a, b), last = wasm_u64x2_extmul_high_u32x4(a, b);
    low = wasm_i32x4_shuffle(first, last, 0, 2, 4, 6);
    high = wasm_i32x4_shuffle(first, last, 1, 3, 5, 7);
  }

  v128_t limit_;     // p 2^24: an entry is dropped if the upper 24 bits of its word are less
  uint32_t row_[3];  // row, head, sequence
  uint32_t low_, high_;
  Index first_ = -1;  // the first of the 16 columns in masks_, or -1 if it is empty
  int32_t masks_[16];
};

}  // namespace heed
