#pragma once

// WebAssembly's 128-bit vectors under the names of Clang's <wasm_simd128.h>. In native builds, SIMDe implements them
// with the host's instructions, so that the same kernels run under the sanitizers. The two WebAssembly builds differ
// only in code that depends on HEED_RELAXED_SIMD, which the build for relaxed SIMD defines. A native build may define
// it, too, to test that build's data layout.
//
// Sources that include this header are compiled once per instruction set, all others once. The latter must not include
// it, because the linker would keep only one version of an inline function.
#if !defined(HEED_KERNEL)
#error "gemm/simd.h is included by a source that is compiled only once (see the kernel sources in CMakeLists.txt)"
#endif

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>
#else
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/wasm/simd128.h>
using v128_t = simde_v128_t;
#endif

#include <cstdint>

/// Unrolls a loop over the registers of a tile at every optimization level. Otherwise the array would be indexed at run
/// time and therefore be in memory, at half the speed.
#define HEED_UNROLL _Pragma("clang loop unroll(full)")

namespace heed::simd {

inline v128_t load(const void* from) { return wasm_v128_load(from); }
inline void store(void* to, v128_t x) { wasm_v128_store(to, x); }
inline v128_t splat(float x) { return wasm_f32x4_splat(x); }

/// Broadcasts the 4 bytes at `from`. In the SIMD128 build, which runs mostly in JavaScriptCore, the asm statement
/// forces the address into a register: with a constant offset, JavaScriptCore needs three instructions to load and
/// broadcast, two of them on one port. In V8 this would be slower.
inline v128_t loadSplat(const void* from) {
#if !defined(HEED_RELAXED_SIMD)
  asm("" : "+r"(from));
#endif
  return wasm_v128_load32_splat(from);
}

/// a b + c: one rounding in the relaxed build if the CPU has FMA, two otherwise.
inline v128_t multiplyAdd(v128_t a, v128_t b, v128_t c) {
#if defined(HEED_RELAXED_SIMD) && defined(__wasm__)
  return wasm_f32x4_relaxed_madd(a, b, c);
#else
  return wasm_f32x4_add(wasm_f32x4_mul(a, b), c);
#endif
}

/// c - a b, rounded as multiplyAdd.
inline v128_t multiplySubtract(v128_t a, v128_t b, v128_t c) {
#if defined(HEED_RELAXED_SIMD) && defined(__wasm__)
  return wasm_f32x4_relaxed_nmadd(a, b, c);
#else
  return wasm_f32x4_sub(c, wasm_f32x4_mul(a, b));
#endif
}

/// b < a ? b : a and a < b ? b : a, so that a is the result if one of them is NaN; one instruction on x86.
inline v128_t minimum(v128_t a, v128_t b) { return wasm_f32x4_pmin(a, b); }
inline v128_t maximum(v128_t a, v128_t b) { return wasm_f32x4_pmax(a, b); }

/// mask ? a : b, bit by bit; every lane of `mask` is all ones or all zeros.
inline v128_t select(v128_t mask, v128_t a, v128_t b) {
#if defined(HEED_RELAXED_SIMD) && defined(__wasm__)
  return wasm_i32x4_relaxed_laneselect(a, b, mask);
#else
  return wasm_v128_bitselect(a, b, mask);
#endif
}

/// (a b + 2^14) >> 15 in 16 bits; 2^15 or 2^15 - 1 for a = b = -2^15.
inline v128_t multiplyQ15(v128_t a, v128_t b) {
#if defined(HEED_RELAXED_SIMD) && defined(__wasm__)
  return wasm_i16x8_relaxed_q15mulr(a, b);
#else
  return wasm_i16x8_q15mulr_sat(a, b);
#endif
}

/// Broadcasts `x`, whose value is hidden from the compiler, so that the vector stays in a register. The compiler would
/// rebuild a known constant at each use in a loop.
inline v128_t opaqueSplat(int32_t x) {
  const volatile int32_t hidden = x;
  return wasm_i32x4_splat(hidden);
}

#if defined(HEED_RELAXED_SIMD)
/// Eight 16-bit sums of two products each: signed bytes of a times bytes of b in 0..127.
inline v128_t dot2(v128_t a, v128_t b) {
#if defined(HEED_RELAXED_SIMD) && defined(__wasm__)
  return wasm_i16x8_relaxed_dot_i8x16_i7x16(a, b);
#else
  const v128_t low = wasm_i16x8_extmul_low_i8x16(a, b), high = wasm_i16x8_extmul_high_i8x16(a, b);
  return wasm_i16x8_add(wasm_i16x8_shuffle(low, high, 0, 2, 4, 6, 8, 10, 12, 14),
                        wasm_i16x8_shuffle(low, high, 1, 3, 5, 7, 9, 11, 13, 15));
#endif
}

/// sums + four 32-bit sums of four products each, with operands as in dot2().
inline v128_t dot4Add(v128_t a, v128_t b, v128_t sums) {
#if defined(HEED_RELAXED_SIMD) && defined(__wasm__)
  return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, b, sums);
#else
  return wasm_i32x4_add(sums, wasm_i32x4_extadd_pairwise_i16x8(dot2(a, b)));
#endif
}

/// Whether dot4Add() is one instruction. The relaxed dot product is not specified for bytes above 127, so its result
/// for them shows how the engine implements it: VNNI reads them as unsigned, Arm as signed; x86 without VNNI adds pairs
/// of products in saturating 16 bits. For specified operands, all agree. (V8 11, behind its flag and before it
/// optimizes, adds the sums twice.)
inline bool hasDot() {
#if defined(__wasm__)
  const int32_t sum =
      wasm_i32x4_extract_lane(dot4Add(opaqueSplat(0x7f7f7f7f), opaqueSplat(-1), wasm_i32x4_splat(0)), 0);
  return sum == 4 * 127 * 255 || sum == -4 * 127;
#else
  return false;
#endif
}
#endif

/// Combines the four lanes: (x0 + x2) + (x1 + x3) for a sum.
template <class F>
float horizontal(v128_t x, const F& combine) {
  x = combine(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(combine(x, wasm_i32x4_shuffle(x, x, 1, 0, 3, 2)), 0);
}
inline float horizontalSum(v128_t x) {
  return horizontal(x, [](v128_t a, v128_t b) { return wasm_f32x4_add(a, b); });
}
inline float horizontalMaximum(v128_t x) { return horizontal(x, maximum); }
inline float horizontalMinimum(v128_t x) { return horizontal(x, minimum); }

/// rows[r][c] -> rows[c][r].
[[gnu::always_inline]] inline void transpose4x4(v128_t rows[4]) {
  const v128_t low01 = wasm_i32x4_shuffle(rows[0], rows[1], 0, 4, 1, 5);
  const v128_t high01 = wasm_i32x4_shuffle(rows[0], rows[1], 2, 6, 3, 7);
  const v128_t low23 = wasm_i32x4_shuffle(rows[2], rows[3], 0, 4, 1, 5);
  const v128_t high23 = wasm_i32x4_shuffle(rows[2], rows[3], 2, 6, 3, 7);
  rows[0] = wasm_i64x2_shuffle(low01, low23, 0, 2);
  rows[1] = wasm_i64x2_shuffle(low01, low23, 1, 3);
  rows[2] = wasm_i64x2_shuffle(high01, high23, 0, 2);
  rows[3] = wasm_i64x2_shuffle(high01, high23, 1, 3);
}

/// rows[r][c] -> rows[c][r] of 16-bit numbers.
[[gnu::always_inline]] inline void transpose8x8(v128_t (&rows)[8]) {
  v128_t pairs[8], fours[8];
  HEED_UNROLL
  for (int i = 0; i < 4; ++i) {  // pairs[2 i], pairs[2 i + 1]: columns 0..3 and 4..7 of rows 2 i and 2 i + 1
    pairs[2 * i] = wasm_i16x8_shuffle(rows[2 * i], rows[2 * i + 1], 0, 8, 1, 9, 2, 10, 3, 11);
    pairs[2 * i + 1] = wasm_i16x8_shuffle(rows[2 * i], rows[2 * i + 1], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  HEED_UNROLL
  for (int i = 0; i < 2; ++i) {  // fours[4 i + c]: columns 2 c and 2 c + 1 of rows 4 i .. 4 i + 3
    HEED_UNROLL
    for (int half = 0; half < 2; ++half) {
      const v128_t a = pairs[4 * i + half], b = pairs[4 * i + 2 + half];
      fours[4 * i + 2 * half] = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5);
      fours[4 * i + 2 * half + 1] = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    }
  }
  HEED_UNROLL
  for (int c = 0; c < 4; ++c) {
    rows[2 * c] = wasm_i64x2_shuffle(fours[c], fours[4 + c], 0, 2);
    rows[2 * c + 1] = wasm_i64x2_shuffle(fours[c], fours[4 + c], 1, 3);
  }
}

}  // namespace heed::simd
