#include "ops/trellis_search.h"

#include <algorithm>

#include "core/check.h"
#include "gemm/simd.h"

namespace heed {
namespace {

/// The cost of paths that do not begin in state 0. Finite, because sums of infinities would take more care.
constexpr float kUnreachable = 1e30F;

/// A state is the number h of its oldest weight, followed by the rest, its *memory*. The memory of the next state
/// consists of the lower digits of this one: memory m = p Q + q is reached by the number q from the memories h P + p of
/// all h. For each memory, the best of these Q paths is kept.
template <int kBits>
void search(Index length, const float* targets, const float* steps, uint16_t* states, Arena& arena) {
  constexpr Index kNumbers = 1 << kBits;                  // Q
  constexpr Index kMemories = kTrellisStates / kNumbers;  // M
  constexpr Index kPrefixes = kMemories / kNumbers;       // P
  constexpr int kVectors = static_cast<int>(kNumbers / 4);
  const Arena::Scope scope(arena);
  auto* levels = arena.take<float>(kTrellisStates);
  for (Index s = 0; s < kTrellisStates; ++s) levels[s] = static_cast<float>(trellisLevel(s));
  auto* costs = arena.take<float>(kMemories);
  auto* next = arena.take<float>(kMemories);
  auto* oldest = arena.take<uint8_t>(Shape{length, kMemories}.size() + 16);  // h of the best path to each memory
  std::fill_n(costs, kMemories, kUnreachable);
  costs[0] = 0;
  for (Index k = 0; k < length; ++k) {
    const v128_t target = simd::splat(targets[k]), step = simd::splat(steps[k]);
    for (Index p = 0; p < kPrefixes; ++p) {
      v128_t best[kVectors], from[kVectors];
      HEED_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        best[v] = simd::splat(2 * kUnreachable);
        from[v] = wasm_i32x4_splat(0);
      }
      for (Index h = 0; h < kNumbers; ++h) {
        const Index memory = h * kPrefixes + p;
        const v128_t cost = simd::splat(costs[memory]), number = wasm_i32x4_splat(static_cast<int>(h));
        HEED_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const v128_t level = simd::load(levels + memory * kNumbers + 4 * v);
          const v128_t error = wasm_f32x4_sub(target, wasm_f32x4_mul(step, level));
          const v128_t sum = wasm_f32x4_add(cost, wasm_f32x4_mul(error, error));
          from[v] = simd::select(wasm_f32x4_lt(sum, best[v]), number, from[v]);
          best[v] = simd::minimum(best[v], sum);
        }
      }
      HEED_UNROLL
      for (int v = 0; v < kVectors; ++v) simd::store(next + p * kNumbers + 4 * v, best[v]);
      // As bytes. A vector of 8 numbers is stored twice; the next iteration overwrites the second half.
      const v128_t low = wasm_i16x8_narrow_i32x4(from[0], from[1]);
      const v128_t high = kVectors == 4 ? wasm_i16x8_narrow_i32x4(from[kVectors - 2], from[kVectors - 1]) : low;
      simd::store(oldest + k * kMemories + p * kNumbers, wasm_u8x16_narrow_i16x8(low, high));
    }
    std::swap(costs, next);
  }
  Index memory = std::min_element(costs, costs + kMemories) - costs;
  for (Index k = length; k-- > 0;) {
    const Index h = oldest[k * kMemories + memory];
    states[k] = static_cast<uint16_t>(h * kMemories + memory);
    memory = h * kPrefixes + memory / kNumbers;
  }
}

}  // namespace

void trellisSearch(int bits, Index length, const float* targets, const float* steps, uint16_t* states, Arena& arena) {
  requireRange("bits", bits, 3, 4);
  requireAtLeast("length", length, 0);
  bits == 3 ? search<3>(length, targets, steps, states, arena) : search<4>(length, targets, steps, states, arena);
}

}  // namespace heed
