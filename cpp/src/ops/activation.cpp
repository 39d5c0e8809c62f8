/// Elementwise activations y = phi(x); their formulas are in ops/elementwise.h.
#include "heed/activation.h"

#include <cstring>
#include <string>

#include "core/check.h"
#include "ops/activation.h"
#include "ops/elementwise.h"

namespace heed {

namespace {

/// Applies phi to N vectors at a time.
template <int N, class Phi>
void apply(float* x, Index count, const Phi& phi) {
  Index i = 0;
  for (; i + 4 * N <= count; i += 4 * N) simd::store(x + i, phi(simd::loadFloats<N>(x + i)));
  if (i == count) return;
  float tail[4 * N] = {};
  const auto bytes = static_cast<size_t>(count - i) * sizeof(float);
  std::memcpy(tail, x + i, bytes);
  simd::store(tail, phi(simd::loadFloats<N>(tail)));
  std::memcpy(x + i, tail, bytes);
}

}  // namespace

Activation activationNamed(std::string_view name) {
  constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"identity", Activation::kIdentity},  {"relu", Activation::kRelu}, {"gelu", Activation::kGelu},
      {"gelu_tanh", Activation::kGeluTanh}, {"tanh", Activation::kTanh}, {"sigmoid", Activation::kSigmoid},
      {"silu", Activation::kSilu}};
  std::string legal;
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
    legal += (legal.empty() ? "'" : ", '") + std::string(known) + "'";
  }
  refuse(ErrorCode::kInvalidArgument, "activation", "one of " + legal, "'" + std::string(name) + "'");
}

void activate(float* x, Index count, Activation activation) {
  switch (activation) {
    case Activation::kIdentity:
      return;
    case Activation::kRelu:
      return apply<2>(x, count, [](const auto& y) { return simd::relu(y); });
    case Activation::kGelu:
      return apply<4>(x, count,
                      [](const auto& y) { return simd::gelu(y); });  // four vectors hide the latency of its division
    case Activation::kGeluTanh:
      return apply<2>(x, count, [](const auto& y) { return simd::geluTanh(y); });
    case Activation::kTanh:
      return apply<2>(x, count, [](const auto& y) { return simd::tanh(y); });
    case Activation::kSigmoid:
      return apply<2>(x, count, [](const auto& y) { return simd::sigmoid(y); });
    case Activation::kSilu:
      return apply<2>(x, count, [](const auto& y) { return simd::silu(y); });
  }
}

void activate(MatrixView x, Activation activation) {
  for (Index i = 0; i < x.rows(); ++i) activate(x.data() + i * x.outerStride(), x.cols(), activation);
}

}  // namespace heed
