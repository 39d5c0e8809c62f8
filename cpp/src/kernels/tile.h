#pragma once

#include <cstddef>

#include "heed/tensor.h"
#include "kernels/simd.h"

/// The inner loop of the products with weights: a few rows of the left operand times panels of 8 columns of the right
/// one.
///
/// The left operand comes as strips: R rows interleaved, so that step s holds R units of 4 bytes, one per row. A unit
/// is one float, or as many quantized activations as an int8 step has (four bytes, or two 16-bit integers). The right
/// operand comes in PackedWeight's panels.
///
/// Every sum is one chain over k in ascending order, in a lane of its own: no tile shape, and no place in a tile,
/// changes a bit of it.
namespace heed {

/// How many k an int8 step holds, and how many steps always come together.
#if defined(HEED_RELAXED_SIMD)
inline constexpr Index kInt8Group = 4;
inline constexpr Index kInt8Together = 2;
#else
inline constexpr Index kInt8Group = 2;
inline constexpr Index kInt8Together = 1;
#endif
/// Steps of K values, the last ones filled up with zeros.
inline Index int8Steps(Index depth) {
  constexpr Index kValues = kInt8Group * kInt8Together;
  return (depth + kValues - 1) / kValues * kInt8Together;
}

/// Rows of the highest strip. WebAssembly sees 16 registers and V8 keeps one: 6 x 8 sums, a panel's step and a
/// broadcast fill 15 of them. Where a product needs a register before it is added, one row less is faster (49 instead
/// of 29 GFLOP/s).
#if defined(HEED_RELAXED_SIMD)
inline constexpr Index kStripRows = 6;
#else
inline constexpr Index kStripRows = 5;
#endif

/// What a step does: widen() gives half a panel's step (4 columns), add() adds a unit of the left operand times these
/// to four sums.
struct FloatStep {
  static constexpr Index kBytes = 32;
  static v128_t half(const std::byte* step, int which) { return simd::load(step + 16 * which); }
  static v128_t add(v128_t sums, v128_t left, v128_t right) { return simd::multiplyAdd(left, right, sums); }
};

#if defined(HEED_RELAXED_SIMD)
struct RelaxedInt8Step {
  static constexpr Index kBytes = 32;
  static v128_t half(const std::byte* step, int which) { return simd::load(step + 16 * which); }
};

/// Four products and three additions in one instruction, where the CPU has one (VNNI, Arm's dot product).
struct DotStep : RelaxedInt8Step {
  static v128_t add(v128_t sums, v128_t left, v128_t right) { return simd::dot4Add(right, left, sums); }
};

/// The same where it has not (x86 without AVX-VNNI): V8 then makes a vector of ones for every dot; here it stays in a
/// register.
struct SplitDotStep : RelaxedInt8Step {
  v128_t ones = simd::opaqueSplat(0x00010001);
  v128_t add(v128_t sums, v128_t left, v128_t right) const { return widen(sums, simd::dot2(right, left)); }
  /// Two steps, added before they are widened, where 16 bits hold the sum.
  v128_t add(v128_t sums, const v128_t left[2], v128_t right, v128_t next) const {
    return widen(sums, wasm_i16x8_add(simd::dot2(right, left[0]), simd::dot2(next, left[1])));
  }
  v128_t widen(v128_t sums, v128_t pairs) const { return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(pairs, ones)); }
};
#else
struct WideDotStep {
  static constexpr Index kBytes = 16;
  static v128_t half(const std::byte* step, int which) { return wasm_i16x8_load8x8(step + 8 * which); }
  static v128_t add(v128_t sums, v128_t left, v128_t right) {
    return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(left, right));
  }
};
#endif

#if defined(HEED_RELAXED_SIMD)
/// R rows times a panel, two steps at a time: three multiplications where two steps by themselves take four. `is_wide`
/// (steps / 2 + 1) marks the twos whose sum may leave 16 bits, and the end.
template <int R>
void pairedTile(const uint32_t* left, const std::byte* right, const uint8_t* is_wide, Index steps, float* sums) {
  v128_t sum[R][2];
  const SplitDotStep step;
  HEED_UNROLL
  for (auto& row : sum) row[0] = row[1] = simd::splat(0);
  for (Index s = 0;; ++s) {
#pragma clang loop unroll(disable)
    for (; !is_wide[s]; ++s) {
      HEED_UNROLL
      for (int r = 0; r < R; ++r) {
        const v128_t units[2] = {wasm_v128_load32_splat(left + r), wasm_v128_load32_splat(left + R + r)};
        HEED_UNROLL
        for (int i = 0; i < 2; ++i)
          sum[r][i] = step.add(sum[r][i], units, step.half(right, i), step.half(right + SplitDotStep::kBytes, i));
      }
      left += 2 * R;
      right += 2 * SplitDotStep::kBytes;
    }
    if (s == steps / 2) break;
#pragma clang loop unroll(disable)
    for (int one = 0; one < 2; ++one) {
      HEED_UNROLL
      for (int r = 0; r < R; ++r) {
        const v128_t unit = wasm_v128_load32_splat(left + r);
        HEED_UNROLL
        for (int i = 0; i < 2; ++i) sum[r][i] = step.add(sum[r][i], unit, step.half(right, i));
      }
      left += R;
      right += SplitDotStep::kBytes;
    }
  }
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int i = 0; i < 2; ++i) simd::store(sums + 8 * r + 4 * i, sum[r][i]);
  }
}
#endif

/// R rows times P panels. Row r's 8 sums with panel p go to sums + p sums_stride + 8 r.
template <class Step, int R, int P>
void tile(const uint32_t* left, const std::byte* right, Index panel_bytes, Index steps, float* sums,
          Index sums_stride) {
  v128_t sum[R][2 * P];
  const Step step;
  HEED_UNROLL
  for (auto& row : sum) {
    HEED_UNROLL
    for (v128_t& four : row) four = simd::splat(0);
  }
#pragma clang loop unroll(disable)
  for (Index s = 0; s < steps; ++s) {
    v128_t columns[2 * P];
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) columns[i] = step.half(right + i / 2 * panel_bytes, i % 2);
    HEED_UNROLL
    for (int r = 0; r < R; ++r) {
      const v128_t unit = wasm_v128_load32_splat(left + r);
      HEED_UNROLL
      for (int i = 0; i < 2 * P; ++i) sum[r][i] = step.add(sum[r][i], unit, columns[i]);
    }
    left += R;
    right += Step::kBytes;
  }
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) simd::store(sums + i / 2 * sums_stride + 8 * r + 4 * (i % 2), sum[r][i]);
  }
}

}  // namespace heed
