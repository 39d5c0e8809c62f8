#include "heed/activation.h"

#include <cmath>
#include <string>

namespace heed {

namespace {

float phi(float x, Activation activation) {
  switch (activation) {
    case Activation::kIdentity: return x;
    case Activation::kRelu: return x < 0 ? 0 : x;
    case Activation::kGelu: return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    case Activation::kGeluTanh: return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kSilu: return x / (1 + std::exp(-x));
  }
  return x;
}

}  // namespace

Activation activationNamed(std::string_view name) {
  constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"identity", Activation::kIdentity}, {"relu", Activation::kRelu},       {"gelu", Activation::kGelu}, {"gelu_tanh", Activation::kGeluTanh},
      {"tanh", Activation::kTanh},         {"sigmoid", Activation::kSigmoid}, {"silu", Activation::kSilu}};
  std::string legal;
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
    legal += (legal.empty() ? "'" : ", '") + std::string(known) + "'";
  }
  throw Error(ErrorCode::kInvalidArgument, "activation: got '" + std::string(name) + "'; expected one of " + legal);
}

void activate(MatrixView x, Activation activation) {
  x = x.unaryExpr([activation](float value) { return phi(value, activation); });
}

}  // namespace heed
