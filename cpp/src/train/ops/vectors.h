#pragma once

#include <algorithm>
#include <cstring>

#include "heed/train/graph.h"
#include "ops/elementwise.h"

/// Loops over arrays of floats by SIMD vectors, for operations that are computed element by element.
namespace heed::train {

inline Index sizeOf(const Matrix& m) { return m.rows() * m.cols(); }

/// out[i] = f(inputs[i]...) for i in [0, count), where f takes and returns simd::Floats<N>. `out` may be one of the
/// inputs. For the last, incomplete vectors f gets zeros in place of the missing elements.
template <int N, class F, class... Inputs>
void transform(Index count, float* out, const F& f, const Inputs*... inputs) {
  constexpr Index kStep = 4 * N;
  const Index whole = count / kStep * kStep;
  const auto rest = static_cast<size_t>(count - whole) * sizeof(float);
  float tails[sizeof...(Inputs)][kStep] = {};
  float tail[kStep];
  // First the whole vectors, then copies of the last, in one loop: f is compiled once.
  const auto run = [&f](Index end, float* to, const Inputs*... from) __attribute__((noinline)) {
    for (Index i = 0; i < end; i += kStep) simd::store(to + i, f(simd::loadFloats<N>(from + i)...));
  };
  run(whole, out, inputs...);
  if (rest == 0) return;
  size_t k = 0;
  const auto padded = [&](const float* from) {
    std::memcpy(tails[k], from + whole, rest);
    return tails[k++];
  };
  run(kStep, tail, padded(inputs)...);
  std::memcpy(out + whole, tail, rest);
}

/// The sum of f(inputs[i]...) over i in [0, count), in an order that depends only on `count`.
template <class F, class... Inputs>
float sumOver(Index count, const F& f, const Inputs*... inputs) {
  // Four chains, because each addition depends on the previous one of its chain.
  constexpr int kChains = 4;
  simd::Floats<kChains> sums(simd::splat(0));
  Index i = 0;
  for (; i + 4 * kChains <= count; i += 4 * kChains) sums = sums + f(simd::loadFloats<kChains>(inputs + i)...);
  for (; i + 4 <= count; i += 4) {
    sums.vectors[0] = wasm_f32x4_add(sums.vectors[0], f(simd::loadFloats<1>(inputs + i)...).vectors[0]);
  }
  float total = simd::horizontalSum(wasm_f32x4_add(wasm_f32x4_add(sums.vectors[0], sums.vectors[1]),
                                                   wasm_f32x4_add(sums.vectors[2], sums.vectors[3])));
  for (; i < count; ++i) total += wasm_f32x4_extract_lane(f(simd::Floats<1>(simd::splat(inputs[i]))...).vectors[0], 0);
  return total;
}

/// The same for long arrays: sums of groups, in double.
template <class F, class... Inputs>
double sumInDouble(Index count, const F& f, const Inputs*... inputs) {
  constexpr Index kGroup = 256;
  double total = 0;
  for (Index i = 0; i < count; i += kGroup)
    total += static_cast<double>(sumOver(std::min(kGroup, count - i), f, (inputs + i)...));
  return total;
}

/// out += x.
inline void accumulate(Index count, const float* x, float* out) {
  transform<4>(count, out, [](const auto& a, const auto& b) { return a + b; }, out, x);
}

/// For Backward::add(): writes an Eigen expression plus the residual.
template <class Expression>
void write(MatrixView out, const ConstMatrixView* residual, const Expression& value) {
  if (residual) {
    out += value;
  } else {
    out = value;
  }
}

}  // namespace heed::train
