#pragma once

#include <string_view>

#include "heed/activation.h"
#include "ops/elementwise.h"

/// The activations: for each, its name, its formula phi(x) and its gradient dy phi'(x), N vectors of four floats at a
/// time. `kVectors` and `kGradientVectors` are the numbers of vectors that hide the latency of their instructions.
///
///   relu'      1 if x > 0, otherwise 0
///   gelu'      Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi), Phi(x) = (1 + erf(x / sqrt(2))) / 2
///   geluTanh'  s + x s (1 - s) u', where s = sigmoid(u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3)
///   tanh'      1 - tanh(x)^2
///   sigmoid'   s (1 - s), s = sigmoid(x)
///   silu'      s (1 + x (1 - s))
///   quickGelu' s (1 + c x (1 - s)), s = sigmoid(c x), c = 1.702
namespace heed::activations {

using simd::Floats;

/// x clamped to [-kBound, kBound]. Beyond it derivatives are constant in fp32, but their formulas would give infinity
/// times 0. NaN stays NaN.
template <float kBound, int N>
Floats<N> clamped(const Floats<N>& x) {
  return maximum(minimum(x, simd::constant<kBound>()), simd::constant<-kBound>());
}

struct Identity {
  static constexpr std::string_view kName = "identity";
  static constexpr int kVectors = 4, kGradientVectors = 4;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return x;
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>&, const Floats<N>& dy) {
    return dy;
  }
};

struct Relu {
  static constexpr std::string_view kName = "relu";
  static constexpr int kVectors = 2, kGradientVectors = 4;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return simd::relu(x);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    return each([](v128_t a, v128_t b) { return wasm_v128_andnot(b, wasm_f32x4_le(a, simd::splat(0))); }, x, dy);
  }
};

struct Gelu {
  static constexpr std::string_view kName = "gelu";
  static constexpr int kVectors = 4, kGradientVectors = 4;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return simd::gelu(x);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& any, const Floats<N>& dy) {
    const Floats<N> x = clamped<16.0f>(any), half(simd::constant<0.5f>());
    const Floats<N> density = exp(x * x * simd::constant<-0.5f>()) * simd::constant<0.398942280f>();
    const Floats<N> distribution = multiplyAdd(erf(x * simd::constant<0.707106781f>()), half, half);
    return dy * multiplyAdd(x, density, distribution);
  }
};

struct GeluTanh {
  static constexpr std::string_view kName = "gelu_tanh";
  static constexpr int kVectors = 2, kGradientVectors = 2;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return simd::geluTanh(x);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& any, const Floats<N>& dy) {
    constexpr float kSlope = 2 * 0.797884561f;
    const Floats<N> x = clamped<32.0f>(any), x2 = x * x;
    const Floats<N> s = sigmoid(x * multiplyAdd(x2, simd::constant<kSlope * 0.044715f>(), simd::constant<kSlope>()));
    const Floats<N> slope = multiplyAdd(x2, simd::constant<3 * kSlope * 0.044715f>(), simd::constant<kSlope>());
    return dy * multiplyAdd(x * slope, s * (Floats<N>(simd::constant<1.0f>()) - s), s);
  }
};

struct Tanh {
  static constexpr std::string_view kName = "tanh";
  static constexpr int kVectors = 2, kGradientVectors = 2;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return simd::tanh(x);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    // With s = sigmoid(2 x), 1 - tanh(x)^2 = 4 s (1 - s).
    const Floats<N> s = sigmoid(x + x);
    return dy * (s * simd::constant<4.0f>() * (Floats<N>(simd::constant<1.0f>()) - s));
  }
};

struct Sigmoid {
  static constexpr std::string_view kName = "sigmoid";
  static constexpr int kVectors = 2, kGradientVectors = 2;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return simd::sigmoid(x);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    const Floats<N> s = sigmoid(x);
    return dy * (s * (Floats<N>(simd::constant<1.0f>()) - s));
  }
};

struct Silu {
  static constexpr std::string_view kName = "silu";
  static constexpr int kVectors = 2, kGradientVectors = 2;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return simd::silu(x);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& any, const Floats<N>& dy) {
    const Floats<N> x = clamped<88.0f>(any), s = sigmoid(x), one(simd::constant<1.0f>());
    return dy * (s * multiplyAdd(x, one - s, one));
  }
};

struct QuickGelu {
  static constexpr std::string_view kName = "quick_gelu";
  static constexpr int kVectors = 2, kGradientVectors = 2;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return simd::quickGelu(x);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& any, const Floats<N>& dy) {
    return Silu::gradient(any * simd::constant<1.702f>(), dy);
  }
};

template <class... Activations>
struct List {};

/// In the order of Activation.
using All = List<Identity, Relu, Gelu, GeluTanh, Tanh, Sigmoid, Silu, QuickGelu>;

}  // namespace heed::activations
