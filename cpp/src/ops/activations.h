#pragma once

#include <string_view>

#include "heed/activation.h"
#include "ops/elementwise.h"

/// The activations: for each, its name, its formula phi(x) and its gradient dy phi'(x), N vectors of four floats at a
/// time. `kVectors` and `kGradientVectors` are the numbers of vectors that hide the latency of their instructions.
///
/// The formulas of phi are in heed/activation.h. Maximum errors: gelu, geluTanh, quickGelu 4e-7 |phi(x)| + 1e-6; silu
/// 4e-7 |silu(x)| + 4e-37. sigmoid() is constant and positive for very negative x, so x sigmoid(x) would grow with |x|:
/// x is clamped where results are 0 within their accuracy.
///
///   relu'      1 if x > 0, otherwise 0
///   gelu'      Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi), Phi(x) = (1 + erf(x / sqrt(2))) / 2
///   geluTanh'  s + x s (1 - s) u', where s = sigmoid(u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3)
///   tanh'      1 - tanh(x)^2
///   sigmoid'   s (1 - s), s = sigmoid(x)
///   silu'      s (1 + x (1 - s))
///   quickGelu' s (1 + c x (1 - s)), s = sigmoid(c x), c = 1.702
///   gelu10'    gelu' if x <= 10, otherwise 0
///   relu6'     1 if 0 < x < 6, otherwise 0
///   relu2'     2 max(x, 0)
///   leakyRelu' 1 if x > 0, otherwise 0.01
///   hardswish' 0 if x <= -3, 1 if x >= 3, otherwise x / 3 + 1 / 2
///   mish'      t + x (1 - t^2) sigmoid(x), t = tanh(log(1 + e^x)) = n / (n + 2), n = e^x (e^x + 2)
///   laplace'   e^(-z^2) k / sqrt(pi), z = k (x - 0.707107), k = 1 / (0.282095 sqrt(2))
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
    return maximum(x, simd::splat(0.0f));
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
  static Floats<N> value(const Floats<N>& any) {
    // Clamped where the result is 0 within the function's accuracy: a larger |x| would only magnify the error of erf.
    const Floats<N> x = maximum(any, simd::constant<-8.0f>()), half = x * simd::constant<0.5f>();
    return multiplyAdd(half, erf(x * simd::constant<0.707106781f>()), half);
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
  static Floats<N> value(const Floats<N>& any) {
    constexpr float kSlope = 2 * 0.797884561f;
    const Floats<N> x = maximum(any, simd::constant<-11.0f>());
    return x * sigmoid(x * multiplyAdd(x * x, simd::constant<kSlope * 0.044715f>(), simd::constant<kSlope>()));
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
  static Floats<N> value(const Floats<N>& any) {
    const Floats<N> x = maximum(any, simd::constant<-88.5f>());
    return x * sigmoid(x);
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
  static Floats<N> value(const Floats<N>& any) {
    const Floats<N> x = maximum(any, simd::constant<-52.0f>());
    return x * sigmoid(x * simd::constant<1.702f>());
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& any, const Floats<N>& dy) {
    return Silu::gradient(any * simd::constant<1.702f>(), dy);
  }
};

struct Gelu10 {
  static constexpr std::string_view kName = "gelu_10";
  static constexpr int kVectors = 4, kGradientVectors = 4;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return minimum(Gelu::value(x), simd::constant<10.0f>());
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    return each([](v128_t a, v128_t b) { return wasm_v128_andnot(b, wasm_f32x4_gt(a, simd::splat(10))); }, x,
                Gelu::gradient(x, dy));
  }
};

struct Relu6 {
  static constexpr std::string_view kName = "relu6";
  static constexpr int kVectors = 2, kGradientVectors = 4;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return minimum(Relu::value(x), simd::constant<6.0f>());
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    return each([](v128_t a, v128_t b) { return wasm_v128_andnot(b, wasm_f32x4_ge(a, simd::splat(6))); }, x,
                Relu::gradient(x, dy));
  }
};

struct Relu2 {
  static constexpr std::string_view kName = "relu2";
  static constexpr int kVectors = 2, kGradientVectors = 4;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    const Floats<N> positive = Relu::value(x);
    return positive * positive;
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    const Floats<N> positive = Relu::value(x);
    return dy * (positive + positive);
  }
};

struct LeakyRelu {
  static constexpr std::string_view kName = "leaky_relu";
  static constexpr int kVectors = 2, kGradientVectors = 4;

  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    return each([](v128_t a, v128_t b) { return wasm_v128_bitselect(b, a, wasm_f32x4_le(a, simd::splat(0))); }, x,
                x * simd::constant<0.01f>());
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    const Floats<N> small = dy * simd::constant<0.01f>();
    return each(
        [](v128_t a, v128_t b, v128_t c) { return wasm_v128_bitselect(c, b, wasm_f32x4_le(a, simd::splat(0))); }, x, dy,
        small);
  }
};

struct Hardswish {
  static constexpr std::string_view kName = "hardswish";
  static constexpr int kVectors = 2, kGradientVectors = 2;

  template <int N>
  static Floats<N> value(const Floats<N>& any) {
    const Floats<N> x = maximum(any, simd::constant<-3.0f>());
    return x * (minimum(x + simd::constant<3.0f>(), simd::constant<6.0f>()) * simd::constant<1.0f / 6>());
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    const Floats<N> inner = dy * multiplyAdd(x, simd::constant<1.0f / 3>(), Floats<N>(simd::constant<0.5f>()));
    return each(
        [](v128_t a, v128_t b, v128_t c) {
          const v128_t bounded = wasm_v128_bitselect(b, c, wasm_f32x4_ge(a, simd::splat(3)));
          return wasm_v128_andnot(bounded, wasm_f32x4_le(a, simd::splat(-3)));
        },
        x, dy, inner);
  }
};

struct Mish {
  static constexpr std::string_view kName = "mish";
  static constexpr int kVectors = 2, kGradientVectors = 2;

  /// n as above. Beyond 20, tanh(log(1 + e^x)) is 1 in fp32.
  template <int N>
  static Floats<N> ratio(const Floats<N>& x) {
    const Floats<N> power = exp(minimum(x, simd::constant<20.0f>()));
    return power * (power + simd::constant<2.0f>());
  }
  template <int N>
  static Floats<N> value(const Floats<N>& any) {
    const Floats<N> x = maximum(any, simd::constant<-88.0f>()), n = ratio(x);
    return x * (n / (n + simd::constant<2.0f>()));
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& any, const Floats<N>& dy) {
    const Floats<N> x = clamped<88.0f>(any), two(simd::constant<2.0f>()), n = ratio(x);
    const Floats<N> t = n / (n + two), rest = two / (n + two);  // rest = 1 - t
    return dy * multiplyAdd(x * sigmoid(x), rest * (two - rest), t);
  }
};

struct Laplace {
  static constexpr std::string_view kName = "laplace";
  static constexpr int kVectors = 4, kGradientVectors = 4;

  template <int N>
  static Floats<N> argument(const Floats<N>& x) {
    return (x - simd::constant<0.707107f>()) * simd::constant<2.50662642f>();
  }
  template <int N>
  static Floats<N> value(const Floats<N>& x) {
    const Floats<N> half(simd::constant<0.5f>());
    return multiplyAdd(erf(argument(x)), half, half);
  }
  template <int N>
  static Floats<N> gradient(const Floats<N>& x, const Floats<N>& dy) {
    const Floats<N> z = argument(clamped<16.0f>(x));
    return dy * (exp(Floats<N>(simd::splat(0)) - z * z) * simd::constant<1.41421252f>());
  }
};

template <class... Activations>
struct List {};

/// In the order of Activation.
using All = List<Identity, Relu, Gelu, GeluTanh, Tanh, Sigmoid, Silu, QuickGelu, Gelu10, Relu6, Relu2, LeakyRelu,
                 Hardswish, Mish, Laplace>;

}  // namespace heed::activations
