#pragma once

#include "gemm/tile.h"

/// The k-steps of int8 weights (see tile.h). Weights are signed bytes, activations 7 bits (0..127), as the relaxed dot
/// product takes no more.
namespace heed {

/// Values of k in a k-step, and values that are quantized at once, to a multiple of which K is padded with zeros.
#if defined(HEED_RELAXED_SIMD)
inline constexpr Index kInt8StepValues = 4;
#else
inline constexpr Index kInt8StepValues = 2;
#endif
inline constexpr Index kInt8Values = 16;
/// k-steps of K values.
inline Index int8Steps(Index depth) {
  return (depth + kInt8Values - 1) / kInt8Values * (kInt8Values / kInt8StepValues);
}

#if defined(HEED_RELAXED_SIMD)
struct RelaxedInt8Step {
  static constexpr Index kBytes = 32;
  static constexpr int kGroup = 4;
  static v128_t loadHalf(const std::byte* step, int which) { return simd::load(step + 16 * which); }
};

/// Four products and their sum in one instruction, if the CPU has it (VNNI, Arm's dot product).
struct DotStep : RelaxedInt8Step {
  static v128_t add(v128_t sums, v128_t word, v128_t columns) { return simd::dot4Add(columns, word, sums); }
};

/// The second half of a dot product in two instructions. V8 builds a vector of ones for every relaxed dot; here it
/// stays in a register.
struct Widen {
  v128_t ones = simd::opaqueSplat(0x00010001);
  v128_t widen(v128_t sums, v128_t pairs) const { return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(pairs, ones)); }
};

/// DotStep for CPUs without such an instruction (x86 without AVX-VNNI).
struct SplitDotStep : RelaxedInt8Step, Widen {
  v128_t add(v128_t sums, v128_t word, v128_t columns) const { return widen(sums, simd::dot2(columns, word)); }
};

/// Four such steps whose pairs of products are added in 16 bits before they are widened: five multiplications instead
/// of eight, for panels that are not wide (see Int8Weight).
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
/// Both operands widened to 16 bits, the left one when it is packed.
struct WideDotStep {
  static constexpr Index kBytes = 16;
  static constexpr int kGroup = 8;
  static v128_t loadHalf(const std::byte* step, int which) { return wasm_i16x8_load8x8(step + 8 * which); }
  static v128_t add(v128_t sums, v128_t word, v128_t columns) {
    return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(word, columns));
  }
};
#endif

}  // namespace heed
