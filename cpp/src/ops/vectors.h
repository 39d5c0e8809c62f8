#pragma once

#include <array>
#include <span>
#include <utility>

#include "heed/tensor.h"
#include "ops/elementwise.h"

/// Loops over arrays of floats in SIMD vectors.
namespace heed {

/// Computes the elements [0, end) of the arrays. `end` is a multiple of the vectors' size.
using VectorLoop = void (*)(const void* f, Index end, float* const* arrays);

/// forVectors() for a loop that processes `step` elements at a time. Not inlined, which would duplicate it.
[[gnu::noinline]] void runLoop(Index count, Index step, std::span<float* const> arrays, size_t outputs, VectorLoop loop,
                               const void* f);
/// sumInDouble() for a loop that processes 16 elements at a time and writes them to the first array.
[[gnu::noinline]] double sumResults(Index count, std::span<float* const> inputs, VectorLoop loop, const void* f);

/// The loop that calls a function F with pointers into each of `arrays` arrays, once per 4 N elements. Only this loop
/// is compiled per function; the surrounding code is shared.
template <int N, size_t arrays, class F>
VectorLoop vectorLoop() {
  return [](const void* f, Index end, float* const* at) {
    const auto run = [&]<size_t... K>(std::index_sequence<K...>) {
      for (Index i = 0; i < end; i += 4 * N) (*static_cast<const F*>(f))((at[K] + i)...);
    };
    run(std::make_index_sequence<arrays>());
  };
}

/// Calls f(pointers into the arrays) once per 4 N elements. f may change the first `outputs` arrays; they may be equal
/// only if f changes none but the last of them. The last, incomplete vectors are padded with zeros.
template <int N, class F, class... Floats>
void forVectors(Index count, size_t outputs, const F& f, Floats*... arrays) {
  const std::array<float*, sizeof...(Floats)> all{const_cast<float*>(arrays)...};
  runLoop(count, 4 * N, all, outputs, vectorLoop<N, sizeof...(Floats), F>(), &f);
}

/// out[i] = f(inputs[i]...) for i in [0, count), where f takes and returns simd::Floats<N>. `out` may be one of the
/// inputs. The last, incomplete vectors are padded with zeros.
template <int N, class F, class... Inputs>
void transform(Index count, float* out, const F& f, const Inputs*... inputs) {
  const auto store = [&f](float* to, const auto*... from) { simd::store(to, f(simd::loadFloats<N>(from)...)); };
  forVectors<N>(count, 1, store, out, inputs...);
}

inline constexpr auto kProduct = [](const auto& a, const auto& b) { return a * b; };

/// The sum of f(inputs[i]...) over i in [0, count), in an order that depends only on `count`: in fp32 within groups of
/// 256, whose sums are added in double.
template <class F, class... Inputs>
double sumInDouble(Index count, const F& f, const Inputs*... inputs) {
  const auto store = [&f](float* to, const auto*... from) { simd::store(to, f(simd::loadFloats<4>(from)...)); };
  return sumResults(count, std::array<float*, sizeof...(Inputs)>{const_cast<float*>(inputs)...},
                    vectorLoop<4, 1 + sizeof...(Inputs), decltype(store)>(), &store);
}

template <class F, class... Inputs>
float sumOver(Index count, const F& f, const Inputs*... inputs) {
  return static_cast<float>(sumInDouble(count, f, inputs...));
}

/// out += factor x for `count` elements. The product is rounded before the sum.
void accumulate(Index count, const float* x, float* out, float factor = 1);

}  // namespace heed
