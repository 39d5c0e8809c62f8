#include "ops/mask.h"

#include <algorithm>

#include "gemm/simd.h"

namespace heed {
namespace {

/// Calls f(i) for every group of four indices below `count`, then g(i) for each remaining index.
template <class F, class G>
void byFours(Index count, const F& f, const G& g) {
  Index i = 0;
  for (; i + 4 <= count; i += 4) f(i);
  for (; i < count; ++i) g(i);
}

}  // namespace

bool allForbidden(const uint8_t* allowed, Index count) {
  return std::all_of(allowed, allowed + count, [](uint8_t a) { return a == 0; });
}

bool allForbidden(const float* added, Index count) {
  return std::all_of(added, added + count, [](float a) { return a == kForbidden; });
}

bool hasNaN(const float* added, Index count) {
  v128_t unequal = wasm_i32x4_splat(0);  // NaN differs from itself
  bool found = false;
  byFours(
      count,
      [&](Index i) {
        const v128_t four = simd::load(added + i);
        unequal = wasm_v128_or(unequal, wasm_f32x4_ne(four, four));
      },
      [&](Index i) { found = found || added[i] != added[i]; });
  return found || wasm_v128_any_true(unequal);
}

void applyMask(const uint8_t* allowed, Index count, float* scores) {
  byFours(
      count,
      [&](Index i) {
        const v128_t bytes = wasm_v128_load32_zero(allowed + i);
        const v128_t wide = wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(bytes));
        const v128_t forbidden = wasm_i32x4_eq(wide, wasm_i32x4_splat(0));
        simd::store(scores + i, simd::select(forbidden, simd::splat(kForbidden), simd::load(scores + i)));
      },
      [&](Index i) {
        if (!allowed[i]) scores[i] = kForbidden;
      });
}

void applyMask(const float* added, Index count, float* scores) {
  byFours(
      count,
      [&](Index i) {
        const v128_t four = simd::load(added + i), forbidden = wasm_f32x4_eq(four, simd::splat(kForbidden));
        const v128_t sum = wasm_f32x4_add(simd::load(scores + i), four);
        simd::store(scores + i, simd::select(forbidden, four, sum));
      },
      [&](Index i) { scores[i] = added[i] == kForbidden ? kForbidden : scores[i] + added[i]; });
}

}  // namespace heed
