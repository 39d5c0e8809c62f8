#pragma once

#include <array>
#include <span>
#include <utility>

#include "heed/train/backward.h"
#include "ops/elementwise.h"
#include "train/ops/accumulate.h"

/// Loops over arrays of floats in SIMD vectors, for elementwise operations.
namespace heed::train {

inline Index sizeOf(const Matrix& m) { return m.rows() * m.cols(); }

/// Computes to[i] = f(from[0][i], from[1][i], ...) for i in [0, end). `end` is a multiple of the vectors' size.
using VectorLoop = void (*)(const void* f, Index end, float* to, const float* const* from);

template <int N, class F, size_t... K>
void runVectors(const F& f, Index end, float* to, const float* const* from, std::index_sequence<K...>) {
  const auto loop = [&](const auto*... arrays) {
    for (Index i = 0; i < end; i += 4 * N) simd::store(to + i, f(simd::loadFloats<N>(arrays + i)...));
  };
  loop(from[K]...);
}

/// The loop for a function F of `inputs` arrays. Only this loop is compiled per function; the surrounding code is
/// shared.
template <int N, size_t inputs, class F>
VectorLoop vectorLoop() {
  return [](const void* f, Index end, float* to, const float* const* from) {
    runVectors<N>(*static_cast<const F*>(f), end, to, from, std::make_index_sequence<inputs>());
  };
}

inline constexpr auto kProduct = [](const auto& a, const auto& b) { return a * b; };

/// transform() for a loop that processes `step` elements at a time. Not inlined, which would duplicate it.
__attribute__((noinline)) void transformArrays(Index count, Index step, float* out,
                                               std::span<const float* const> inputs, VectorLoop loop, const void* f);
/// sumInDouble() for a loop that processes 16 elements at a time.
__attribute__((noinline)) double sumArrays(Index count, std::span<const float* const> inputs, VectorLoop loop,
                                           const void* f);

/// out[i] = f(inputs[i]...) for i in [0, count), where f takes and returns simd::Floats<N>. `out` may be one of the
/// inputs. The last, incomplete vectors are padded with zeros.
template <int N, class F, class... Inputs>
void transform(Index count, float* out, const F& f, const Inputs*... inputs) {
  transformArrays(count, 4 * N, out, std::array<const float*, sizeof...(Inputs)>{inputs...},
                  vectorLoop<N, sizeof...(Inputs), F>(), &f);
}

/// The sum of f(inputs[i]...) over i in [0, count), in an order that depends only on `count`: in fp32 within groups of
/// 256, whose sums are added in double.
template <class F, class... Inputs>
double sumInDouble(Index count, const F& f, const Inputs*... inputs) {
  return sumArrays(count, std::array<const float*, sizeof...(Inputs)>{inputs...}, vectorLoop<4, sizeof...(Inputs), F>(),
                   &f);
}

template <class F, class... Inputs>
float sumOver(Index count, const F& f, const Inputs*... inputs) {
  return static_cast<float>(sumInDouble(count, f, inputs...));
}

/// Writes an Eigen expression plus `residual`, which is null or `out` itself; for Backward::add().
template <class Expression>
void write(MatrixView out, const ConstMatrixView* residual, const Expression& value) {
  if (residual) {
    out += value;
  } else {
    out = value;
  }
}

}  // namespace heed::train
