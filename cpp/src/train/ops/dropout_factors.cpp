/// The draws of ops/dropout.cpp, four counters of Philox4x32-10 (see heed/random.h) at a time, one in each lane.
#include "train/ops/dropout_factors.h"

#include <algorithm>
#include <cstring>

#include "gemm/simd.h"

namespace heed::train {
namespace {

v128_t splatBits(uint32_t x) { return wasm_i32x4_splat(static_cast<int32_t>(x)); }

/// The 64-bit products of 32-bit lanes, in halves.
struct Products {
  v128_t low, high;

  Products(v128_t a, v128_t b) {
    const v128_t first = wasm_u64x2_extmul_low_u32x4(a, b), second = wasm_u64x2_extmul_high_u32x4(a, b);
    low = wasm_i32x4_shuffle(first, second, 0, 2, 4, 6);
    high = wasm_i32x4_shuffle(first, second, 1, 3, 5, 7);
  }
};

/// Replaces word w of four counters, in the lanes of words[w], by their draws.
void philox(v128_t (&words)[4], uint64_t key) {
  const v128_t multipliers[] = {splatBits(0xd2511f53), splatBits(0xcd9e8d57)};
  v128_t low = splatBits(static_cast<uint32_t>(key)), high = splatBits(static_cast<uint32_t>(key >> 32));
  HEED_UNROLL
  for (int round = 0; round < 10; ++round) {
    const Products a(words[0], multipliers[0]), b(words[2], multipliers[1]);
    words[0] = wasm_v128_xor(wasm_v128_xor(b.high, words[1]), low);
    words[1] = b.low;
    words[2] = wasm_v128_xor(wasm_v128_xor(a.high, words[3]), high);
    words[3] = a.low;
    low = wasm_i32x4_add(low, splatBits(0x9e3779b9));
    high = wasm_i32x4_add(high, splatBits(0xbb67ae85));
  }
}

}  // namespace

void dropoutFactors(const DropoutKey& key, Index sequence, Index head, Index row, float p, float kept, Index first,
                    Index count, float* factors) {
  const auto step =
      heed::philox({static_cast<uint32_t>(key.step), static_cast<uint32_t>(key.step >> 32), 0, 0}, key.seed);
  const uint64_t row_key = uint64_t{step[1]} << 32 | step[0];
  const v128_t rate = simd::splat(p), factor = simd::splat(kept), unit = simd::splat(0x1p-24f);
  v128_t blocks = wasm_i32x4_add(splatBits(static_cast<uint32_t>(first / 4)), wasm_i32x4_make(0, 1, 2, 3));
  for (Index column = 0; column < count; column += 16) {
    v128_t words[4] = {blocks, splatBits(static_cast<uint32_t>(row)), splatBits(static_cast<uint32_t>(head)),
                       splatBits(static_cast<uint32_t>(sequence))};
    philox(words, row_key);
    simd::transpose4x4(words);
    float sixteen[16];
    for (int i = 0; i < 4; ++i) {
      const v128_t draws = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_u32x4_shr(words[i], 8)), unit);
      simd::store(sixteen + 4 * i, wasm_v128_andnot(factor, wasm_f32x4_lt(draws, rate)));
    }
    std::memcpy(factors + column, sixteen, static_cast<size_t>(std::min<Index>(16, count - column)) * sizeof(float));
    blocks = wasm_i32x4_add(blocks, wasm_i32x4_splat(4));
  }
}

}  // namespace heed::train
