#pragma once

#include <cstddef>

#include "heed/tensor.h"
#include "kernels/simd.h"

/// The inner loop of the products with weights: a few rows of the left operand times panels of 8 columns of the right
/// one.
///
/// The left operand comes as strips: R rows interleaved. A unit of 4 bytes is one float, or as many quantized
/// activations as an int8 step has (four bytes, or two 16-bit integers). Units of kTogether steps stand side by side,
/// row after row: unit n of row r is left[kTogether r + n]. The right operand comes in PackedWeight's panels.
///
/// Every sum is one chain over k in ascending order, in a lane of its own: no tile shape, and no place in a tile,
/// changes a bit of it.
namespace heed {

/// How many k an int8 step holds, and how many always come together.
#if defined(HEED_RELAXED_SIMD)
inline constexpr Index kInt8Group = 4;
#else
inline constexpr Index kInt8Group = 2;
#endif
inline constexpr Index kInt8Together = 16;
/// Steps of K values, the last ones filled up with zeros.
inline Index int8Steps(Index depth) {
  return (depth + kInt8Together - 1) / kInt8Together * (kInt8Together / kInt8Group);
}

/// Rows of the highest strip. WebAssembly sees 16 registers and V8 keeps one: 6 x 8 sums, a panel's step and a
/// broadcast fill 15 of them. Where a product needs a register before it is added, one row less is faster (49 instead
/// of 29 GFLOP/s).
#if defined(HEED_RELAXED_SIMD)
inline constexpr Index kStripRows = 6;
#else
inline constexpr Index kStripRows = 5;
#endif

/// What a step does: half() gives half a panel's step (4 columns), add() adds a unit of the left operand times these to
/// four sums.
struct FloatStep {
  static constexpr Index kBytes = 32;
  static constexpr int kTogether = 1;
  static v128_t half(const std::byte* step, int which) { return simd::load(step + 16 * which); }
  static v128_t add(v128_t sums, v128_t left, v128_t right) { return simd::multiplyAdd(left, right, sums); }
};

#if defined(HEED_RELAXED_SIMD)
struct RelaxedInt8Step {
  static constexpr Index kBytes = 32;
  static constexpr int kTogether = 4;
  static v128_t half(const std::byte* step, int which) { return simd::load(step + 16 * which); }
};

/// Four products and three additions in one instruction, where the CPU has one (VNNI, Arm's dot product).
struct DotStep : RelaxedInt8Step {
  static v128_t add(v128_t sums, v128_t left, v128_t right) { return simd::dot4Add(right, left, sums); }
};

/// What is left of a dot in two instructions. V8 makes a vector of ones for every dot; here it stays in a register.
struct Widen {
  v128_t ones = simd::opaqueSplat(0x00010001);
  v128_t widen(v128_t sums, v128_t pairs) const { return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(pairs, ones)); }
};

/// The same as DotStep where the CPU has no such instruction (x86 without AVX-VNNI).
struct SplitDotStep : RelaxedInt8Step, Widen {
  v128_t add(v128_t sums, v128_t left, v128_t right) const { return widen(sums, simd::dot2(right, left)); }
};

/// Four such steps, added before they are widened: five multiplications instead of eight, where 16 bits hold the sums.
struct NarrowDotStep : RelaxedInt8Step, Widen {};
#else
struct WideDotStep {
  static constexpr Index kBytes = 16;
  static constexpr int kTogether = 8;
  static v128_t half(const std::byte* step, int which) { return wasm_i16x8_load8x8(step + 8 * which); }
  static v128_t add(v128_t sums, v128_t left, v128_t right) {
    return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(left, right));
  }
};
#endif

/// Adds kTogether steps of R rows times P panels.
template <int R, int P, class Step>
  requires requires(const Step step, v128_t x) { step.add(x, x, x); }
inline void addSteps(const Step& step, const uint32_t* left, const std::byte* right, Index panel_bytes,
                     v128_t (&sum)[R][2 * P]) {
#pragma clang loop unroll(disable)
  for (int n = 0; n < Step::kTogether; ++n) {
    v128_t columns[2 * P];
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) columns[i] = step.half(right + n * Step::kBytes + i / 2 * panel_bytes, i % 2);
    HEED_UNROLL
    for (int r = 0; r < R; ++r) {
      const v128_t unit = wasm_v128_load32_splat(left + Step::kTogether * r + n);
      HEED_UNROLL
      for (int i = 0; i < 2 * P; ++i) sum[r][i] = step.add(sum[r][i], unit, columns[i]);
    }
  }
}

#if defined(HEED_RELAXED_SIMD)
template <int R, int P>
inline void addSteps(const NarrowDotStep& step, const uint32_t* left, const std::byte* right, Index panel_bytes,
                     v128_t (&sum)[R][2 * P]) {
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int p = 0; p < P; ++p) {
      v128_t pairs[2];
      HEED_UNROLL
      for (int n = 0; n < step.kTogether; ++n) {
        const v128_t unit = wasm_v128_load32_splat(left + step.kTogether * r + n);
        HEED_UNROLL
        for (int i = 0; i < 2; ++i) {
          const v128_t products = simd::dot2(step.half(right + p * panel_bytes + n * step.kBytes, i), unit);
          pairs[i] = n == 0 ? products : wasm_i16x8_add(pairs[i], products);
        }
      }
      HEED_UNROLL
      for (int i = 0; i < 2; ++i) sum[r][2 * p + i] = step.widen(sum[r][2 * p + i], pairs[i]);
    }
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
  for (Index s = 0; s < steps; s += Step::kTogether) {
    addSteps<R, P>(step, left, right, panel_bytes, sum);
    left += Step::kTogether * R;
    right += Step::kTogether * Step::kBytes;
  }
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) simd::store(sums + i / 2 * sums_stride + 8 * r + 4 * (i % 2), sum[r][i]);
  }
}

}  // namespace heed
