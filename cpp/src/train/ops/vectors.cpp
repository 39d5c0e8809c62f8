#include "train/ops/vectors.h"

#include <algorithm>
#include <cstring>

namespace heed::train {
namespace {

constexpr size_t kMostInputs = 4;
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

void transformArrays(Index count, Index step, float* out, std::span<const float* const> inputs, VectorLoop loop,
                     const void* f) {
  const Index whole = count / step * step;
  if (whole > 0) loop(f, whole, out, inputs.data());
  if (whole == count) return;
  const auto rest = static_cast<size_t>(count - whole) * sizeof(float);
  float copies[kMostInputs][kMostStep] = {};
  float results[kMostStep];
  const float* from[kMostInputs];
  for (size_t k = 0; k < inputs.size(); ++k) {
    std::memcpy(copies[k], inputs[k] + whole, rest);
    from[k] = copies[k];
  }
  loop(f, step, results, from);
  std::memcpy(out + whole, results, rest);
}

double sumArrays(Index count, std::span<const float* const> inputs, VectorLoop loop, const void* f) {
  constexpr Index kGroup = 256;
  double total = 0;
  float group[kGroup];
  const float* from[kMostInputs];
  for (Index i = 0; i < count; i += kGroup) {
    const Index size = std::min(kGroup, count - i);
    for (size_t k = 0; k < inputs.size(); ++k) from[k] = inputs[k] + i;
    transformArrays(size, kMostStep, group, {from, inputs.size()}, loop, f);
    total += static_cast<double>(sumOf(group, size));
  }
  return total;
}

void accumulate(Index count, const float* x, float* out, float factor) {
  const v128_t factors = simd::splat(factor);
  transform<4>(count, out, [factors](const auto& a, const auto& b) { return a + b * factors; }, out, x);
}

}  // namespace heed::train
