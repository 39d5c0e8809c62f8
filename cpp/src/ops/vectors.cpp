#include "ops/vectors.h"

#include <algorithm>
#include <cstring>

namespace heed {
namespace {

constexpr size_t kMostArrays = 5;
constexpr Index kMostStep = 16;

/// Sums in four chains, because each addition depends on the previous one of its chain.
float sumOf(const float* x, Index count) {
  simd::Floats<4> sums(simd::splat(0));
  Index i = 0;
  for (; i + 16 <= count; i += 16) sums = sums + simd::loadFloats<4>(x + i);
  for (; i + 4 <= count; i += 4) sums.vectors[0] = wasm_f32x4_add(sums.vectors[0], simd::load(x + i));
  float total = simd::horizontalSum(wasm_f32x4_add(wasm_f32x4_add(sums.vectors[0], sums.vectors[1]),
                                                   wasm_f32x4_add(sums.vectors[2], sums.vectors[3])));
  for (; i < count; ++i) total += x[i];
  return total;
}

}  // namespace

void runLoop(Index count, Index step, std::span<float* const> arrays, size_t outputs, VectorLoop loop, const void* f) {
  const Index whole = count / step * step;
  if (whole > 0) loop(f, whole, arrays.data());
  if (whole == count) return;
  const auto rest = static_cast<size_t>(count - whole) * sizeof(float);
  float tails[kMostArrays][kMostStep] = {};
  float* at[kMostArrays];
  for (size_t k = 0; k < arrays.size(); ++k) {
    std::memcpy(tails[k], arrays[k] + whole, rest);
    at[k] = tails[k];
  }
  loop(f, step, at);
  for (size_t k = 0; k < outputs; ++k) std::memcpy(arrays[k] + whole, tails[k], rest);
}

double sumResults(Index count, std::span<float* const> inputs, VectorLoop loop, const void* f) {
  constexpr Index kGroup = 256;
  double total = 0;
  float group[kGroup] = {};
  float* arrays[kMostArrays] = {group};
  for (Index i = 0; i < count; i += kGroup) {
    const Index size = std::min(kGroup, count - i);
    for (size_t k = 0; k < inputs.size(); ++k) arrays[k + 1] = inputs[k] + i;
    runLoop(size, kMostStep, {arrays, inputs.size() + 1}, 1, loop, f);
    total += static_cast<double>(sumOf(group, size));
  }
  return total;
}

void accumulate(Index count, const float* x, float* out, float factor) {
  const v128_t factors = simd::splat(factor);
  transform<4>(count, out, [factors](const auto& a, const auto& b) { return a + b * factors; }, out, x);
}

}  // namespace heed
