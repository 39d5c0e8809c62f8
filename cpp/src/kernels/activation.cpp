#include "heed/activation.h"

#include <cstring>
#include <string>

#include "kernels/activation.h"
#include "kernels/elementwise.h"

namespace heed {

namespace {

template <v128_t (*phi)(v128_t)>
void apply(float* x, Index count) {
  Index i = 0;
  for (; i + 4 <= count; i += 4) simd::store(x + i, phi(simd::load(x + i)));
  if (i == count) return;
  float tail[4] = {};
  const auto bytes = static_cast<size_t>(count - i) * sizeof(float);
  std::memcpy(tail, x + i, bytes);
  simd::store(tail, phi(simd::load(tail)));
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
  throw Error(ErrorCode::kInvalidArgument, "activation: got '" + std::string(name) + "'; expected one of " + legal);
}

void activate(float* x, Index count, Activation activation) {
  switch (activation) {
    case Activation::kIdentity:
      return;
    case Activation::kRelu:
      return apply<simd::relu>(x, count);
    case Activation::kGelu:
      return apply<simd::gelu>(x, count);
    case Activation::kGeluTanh:
      return apply<simd::geluTanh>(x, count);
    case Activation::kTanh:
      return apply<simd::tanh>(x, count);
    case Activation::kSigmoid:
      return apply<simd::sigmoid>(x, count);
    case Activation::kSilu:
      return apply<simd::silu>(x, count);
  }
}

void activate(MatrixView x, Activation activation) {
  for (Index i = 0; i < x.rows(); ++i) activate(x.data() + i * x.outerStride(), x.cols(), activation);
}

}  // namespace heed
