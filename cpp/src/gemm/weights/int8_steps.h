#pragma once

#include "gemm/tile.h"

/// The k-steps of int8 weights (see tile.h). Weights are signed bytes; activations are limited to 7 bits (0..127) by
/// the relaxed dot product.
namespace heed {

/// kInt8StepValues: values of k per k-step. kInt8StepWords: words per k-step and row of the left operand. kInt8Values:
/// values that are quantized at once; K is padded with zeros to a multiple of it.
#if defined(HEED_RELAXED_SIMD)
inline constexpr Index kInt8StepValues = 4, kInt8StepWords = 1;
#else
inline constexpr Index kInt8StepValues = 8, kInt8StepWords = 4;
#endif
inline constexpr Index kInt8Values = 16;
/// The number of k-steps for K = depth.
inline Index int8Steps(Index depth) {
  return (depth + kInt8Values - 1) / kInt8Values * (kInt8Values / kInt8StepValues);
}

#if defined(HEED_RELAXED_SIMD)
struct RelaxedInt8Step {
  static constexpr Index kBytes = 32, kWords = kInt8StepWords;
  static constexpr int kGroup = 4;
  static v128_t loadHalf(const std::byte* step, int which) { return simd::load(step + 16 * which); }
};

/// Four products and their sum in one instruction, if the CPU has it (VNNI, Arm's dot product).
struct DotStep : RelaxedInt8Step {
  static v128_t add(v128_t sums, v128_t word, v128_t columns) { return simd::dot4Add(columns, word, sums); }
};

/// Adds pairs of 16-bit products to 32-bit sums. The relaxed dot4Add() would do it, too, but V8 rebuilds the vector of
/// ones for each of them; here it stays in a register.
struct Widen {
  v128_t ones = simd::opaqueSplat(0x00010001);
  v128_t widen(v128_t sums, v128_t pairs) const { return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(pairs, ones)); }
};

/// DotStep for CPUs without a dot product instruction (x86 without AVX-VNNI).
struct SplitDotStep : RelaxedInt8Step, Widen {
  v128_t add(v128_t sums, v128_t word, v128_t columns) const { return widen(sums, simd::dot2(columns, word)); }
};

/// Four SplitDotSteps at once: pairs of products are added in 16 bits before they are widened. This takes five
/// multiplications instead of eight. Only for panels that are not wide (see Int8Weight).
struct NarrowDotStep : RelaxedInt8Step, Widen {};

template <int R, int P>
inline void addGroup(const NarrowDotStep& step, const uint32_t* left, const std::byte* right, Index panel_bytes,
                     v128_t (&sums)[R][2 * P]) {
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int p = 0; p < P; ++p) {
      v128_t pairs[2];
      HEED_UNROLL
      for (int n = 0; n < step.kGroup; ++n) {
        const v128_t word = simd::loadSplat(left + step.kGroup * r + n);
        HEED_UNROLL
        for (int i = 0; i < 2; ++i) {
          const v128_t products = simd::dot2(step.loadHalf(right + p * panel_bytes + n * step.kBytes, i), word);
          pairs[i] = n == 0 ? products : wasm_i16x8_add(pairs[i], products);
        }
      }
      HEED_UNROLL
      for (int i = 0; i < 2; ++i) sums[r][2 * p + i] = step.widen(sums[r][2 * p + i], pairs[i]);
    }
  }
}
#else
/// Both operands are widened to 16 bits; the left one when it is packed.
struct WideDotStep {
  static constexpr Index kBytes = 64, kWords = kInt8StepWords;
};

/// Multiplies vectors of a row's words without broadcasts, because each broadcast costs JavaScriptCore two
/// more instructions for the address (see simd::loadSplat()). Each column then has four partial sums, which are added
/// at the end. The number of columns per pass is limited by the registers.
template <int R, int P>
inline void accumulate(const WideDotStep&, const uint32_t* left, const std::byte* right, Index panel_bytes, Index steps,
                       v128_t (&sums)[R][2 * P]) {
  constexpr int kColumns = R <= 2 ? 4 : 2;
  alignas(16) float totals[R][8 * P];  // bits of integers
  for (int c = 0; c < 8 * P; c += kColumns) {
    v128_t parts[R][kColumns] = {};
    const uint32_t* words = left;
    const std::byte* columns = right + c / 8 * panel_bytes + c % 8 * kInt8StepValues;
#pragma clang loop unroll(disable)
    for (Index s = 0; s < steps; ++s, words += WideDotStep::kWords * R, columns += WideDotStep::kBytes) {
      v128_t widened[kColumns];
      HEED_UNROLL
      for (int i = 0; i < kColumns; ++i) widened[i] = wasm_i16x8_load8x8(columns + kInt8StepValues * i);
      HEED_UNROLL
      for (int r = 0; r < R; ++r) {
        const v128_t row = simd::load(words + WideDotStep::kWords * r);
        HEED_UNROLL
        for (int i = 0; i < kColumns; ++i)
          parts[r][i] = wasm_i32x4_add(parts[r][i], wasm_i32x4_dot_i16x8(row, widened[i]));
      }
    }
    HEED_UNROLL
    for (int r = 0; r < R; ++r) {
      HEED_UNROLL
      for (int i = 0; i < kColumns; ++i)
        totals[r][c + i] = simd::horizontal(parts[r][i], [](v128_t a, v128_t b) { return wasm_i32x4_add(a, b); });
    }
  }
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) sums[r][i] = wasm_i32x4_add(sums[r][i], simd::load(&totals[r][4 * i]));
  }
}
#endif

}  // namespace heed
