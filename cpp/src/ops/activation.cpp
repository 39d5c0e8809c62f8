/// Elementwise activations y = phi(x); their formulas are in ops/elementwise.h.
#include "heed/activation.h"

#include <cstring>

#include "core/check.h"
#include "ops/elementwise.h"

namespace heed {

namespace {

/// x <- kPhi(x), N vectors at a time.
template <int N, auto kPhi>
void apply(float* x, Index count) {
  Index i = 0;
  for (; i + 4 * N <= count; i += 4 * N) simd::store(x + i, kPhi(simd::loadFloats<N>(x + i)));
  if (i == count) return;
  float tail[4 * N] = {};
  const auto bytes = static_cast<size_t>(count - i) * sizeof(float);
  std::memcpy(tail, x + i, bytes);
  simd::store(tail, kPhi(simd::loadFloats<N>(tail)));
  std::memcpy(x + i, tail, bytes);
}

/// In the order of Activation. GELU processes four vectors at a time, which hides the latency of its division.
constexpr std::string_view kActivationNames[] = {"identity", "relu",    "gelu", "gelu_tanh",
                                                 "tanh",     "sigmoid", "silu", "quick_gelu"};
constexpr void (*kFunctions[])(float*, Index) = {
    [](float*, Index) {},
    apply<2, [](const auto& y) { return simd::relu(y); }>,
    apply<4, [](const auto& y) { return simd::gelu(y); }>,
    apply<2, [](const auto& y) { return simd::geluTanh(y); }>,
    apply<2, [](const auto& y) { return simd::tanh(y); }>,
    apply<2, [](const auto& y) { return simd::sigmoid(y); }>,
    apply<2, [](const auto& y) { return simd::silu(y); }>,
    apply<2, [](const auto& y) { return simd::quickGelu(y); }>,
};

}  // namespace

Activation activationNamed(std::string_view name) {
  return static_cast<Activation>(indexOfName("activation", name, kActivationNames));
}

void activate(float* x, Index count, Activation activation) { kFunctions[static_cast<size_t>(activation)](x, count); }

void activate(MatrixView x, Activation activation) {
  for (Index i = 0; i < x.rows(); ++i) activate(x.data() + i * x.outerStride(), x.cols(), activation);
}

}  // namespace heed
