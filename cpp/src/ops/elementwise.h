#pragma once

#include <cstddef>

#include "gemm/simd.h"

/// Elementary functions of SIMD vectors. All take any float, infinities included, unless a range is given, and return
/// NaN for NaN. Errors are maxima; elementwise_test.cpp measures them over the whole range against double precision.
///
///   function   range       error                          limits
///   exp        x <= 88.3   2e-7 e^x; 2e-38 below -87.3    0 at -infinity
///   sigmoid    all         3e-7 sigmoid(x) + 2e-38        at most 5e-39 at -infinity, 1 at infinity
///   tanh       all         4e-7 |tanh(x)|                 -1, 1
///   erf        all         4e-7                           -1, 1
namespace heed::simd {

/// Coefficients that are broadcast from memory by one instruction each. With constants in splat(), V8 would build a
/// vector at every use, with four or five instructions. The asm statement hides the table's values from the compiler.
template <size_t N>
class Table {
 public:
  explicit Table(const float (&values)[N]) : values_(values) { asm("" : "+r"(values_)); }
  v128_t operator[](size_t i) const { return loadSplat(values_ + i); }

 private:
  const float* values_;
};

/// N vectors of four floats, computed in lockstep: their instructions interleave, which hides latency, and a
/// coefficient is loaded once for all of them.
template <int N>
struct Floats {
  v128_t vectors[N];

  Floats() = default;
  /// The same vector N times.
  Floats(v128_t x) {  // NOLINT(google-explicit-constructor): lets coefficients be operands
    HEED_UNROLL
    for (v128_t& vector : vectors) vector = x;
  }

  /// Applies f to corresponding vectors of x and `others`.
  template <class F, class... Others>
  friend Floats each(const F& f, const Floats& x, const Others&... others) {
    Floats y;
    HEED_UNROLL
    for (int i = 0; i < N; ++i) y.vectors[i] = f(x.vectors[i], others.vectors[i]...);
    return y;
  }

  friend Floats operator+(const Floats& a, const Floats& b) {
    return each([](v128_t x, v128_t y) { return wasm_f32x4_add(x, y); }, a, b);
  }
  friend Floats operator-(const Floats& a, const Floats& b) {
    return each([](v128_t x, v128_t y) { return wasm_f32x4_sub(x, y); }, a, b);
  }
  friend Floats operator*(const Floats& a, const Floats& b) {
    return each([](v128_t x, v128_t y) { return wasm_f32x4_mul(x, y); }, a, b);
  }
  friend Floats operator/(const Floats& a, const Floats& b) {
    return each([](v128_t x, v128_t y) { return wasm_f32x4_div(x, y); }, a, b);
  }
  friend Floats multiplyAdd(const Floats& a, const Floats& b, const Floats& c) {
    return each([](v128_t x, v128_t y, v128_t z) { return multiplyAdd(x, y, z); }, a, b, c);
  }
  friend Floats multiplySubtract(const Floats& a, const Floats& b, const Floats& c) {
    return each([](v128_t x, v128_t y, v128_t z) { return multiplySubtract(x, y, z); }, a, b, c);
  }
  friend Floats minimum(const Floats& a, const Floats& b) {
    return each([](v128_t x, v128_t y) { return minimum(x, y); }, a, b);
  }
  friend Floats maximum(const Floats& a, const Floats& b) {
    return each([](v128_t x, v128_t y) { return maximum(x, y); }, a, b);
  }
};

template <int N>
Floats<N> loadFloats(const float* from) {
  Floats<N> x;
  HEED_UNROLL
  for (int i = 0; i < N; ++i) x.vectors[i] = load(from + 4 * i);
  return x;
}

template <int N>
void store(float* to, const Floats<N>& x) {
  HEED_UNROLL
  for (int i = 0; i < N; ++i) store(to + 4 * i, x.vectors[i]);
}

/// A vector of four equal floats.
template <float kX>
v128_t constant() {
  static constexpr float kValues[] = {kX};
  return Table(kValues)[0];
}

// The minimum argument; log2 e; the rounding constant; ln 2 in two parts; the coefficients of q, highest first; 1.
inline constexpr float kExp[] = {
    -88.029692f,   1.44269504f,  12582912.0f,  0.693359375f, -2.12194440e-4f, 0.00138145395f, 0.00836874545f,
    0.0416683890f, 0.166665211f, 0.499999940f, 1.0f};

/// e^x or, if `kMinusOne`, e^x - 1 for x up to 88.3; e^x is 0 below -87.7, including -infinity. For larger x, the
/// result is unspecified.
template <bool kMinusOne, int N>
Floats<N> exponential(const Floats<N>& x) {
  const Table c(kExp);
  // x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer n, which is then in the low bits of the
  // sum. Shifted by 23, these bits add n to the exponent of a float.
  const v128_t rounder = c[2], one = c[10];
  const Floats<N> y = maximum(x, c[0]);
  const Floats<N> shifted = multiplyAdd(y, c[1], rounder);
  const Floats<N> n = shifted - rounder;
  // ln 2 is split into two parts (Cody, Waite 1980), so that the product of n and the first part is exact.
  const Floats<N> r = multiplySubtract(n, c[4], multiplySubtract(n, c[3], y));
  // e^r = 1 + r + r^2 q(r) with a minimax polynomial q. Estrin's scheme (even and odd powers) has a shorter dependency
  // chain than Horner's.
  const Floats<N> r2 = r * r;
  const Floats<N> high = multiplyAdd(r2, c[5], multiplyAdd(r, c[6], c[7]));
  const Floats<N> q = multiplyAdd(r2, high, multiplyAdd(r, c[8], c[9]));
  // 2^n, from the bits of 1 = 2^0. At the minimum argument, n = -127 gives 0.
  const Floats<N> power = each([one](v128_t s) { return wasm_i32x4_add(wasm_i32x4_shl(s, 23), one); }, shifted);
  if constexpr (kMinusOne) return multiplyAdd(multiplyAdd(r2, q, r), power, power - one);
  return multiplyAdd(r2, q, r + one) * power;
}

template <int N>
Floats<N> exp(const Floats<N>& x) {
  return exponential<false>(x);
}

/// 1 / (1 + e^-x). The argument of exp is clamped at 88.3, so that e^-x does not overflow.
template <int N>
Floats<N> sigmoid(const Floats<N>& x) {
  const v128_t one = constant<1.0f>();
  return Floats<N>(one) / (exp(minimum(Floats<N>(splat(0)) - x, constant<88.3f>())) + one);
}

/// tanh x = m / (m + 2) with m = e^2x - 1, which is accurate for small x, too. Beyond 9.1, tanh x is 1 in fp32.
template <int N>
Floats<N> tanh(const Floats<N>& x) {
  const Floats<N> m = exponential<true>(maximum(minimum(x + x, constant<20.0f>()), constant<-20.0f>()));
  return m / (m + constant<2.0f>());
}

// The range of x; the coefficients of the numerator and of the denominator, highest power first.
// clang-format off
inline constexpr float kErf[] = {
    4.0f, -4.0f,
    -2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f,
    -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f,
    -1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f, -7.37332916720468e-03f, -1.42647390514189e-02f};
// clang-format on

/// erf x: the odd rational approximation of Eigen and XLA, which reaches 1 at x = 4.
template <int N>
Floats<N> erf(const Floats<N>& any) {
  const Table c(kErf);
  const Floats<N> x = maximum(minimum(any, c[0]), c[1]), x2 = x * x;
  Floats<N> p = multiplyAdd(x2, c[2], c[3]);
  for (size_t i = 4; i <= 8; ++i) p = multiplyAdd(x2, p, c[i]);
  Floats<N> q = multiplyAdd(x2, c[9], c[10]);
  for (size_t i = 11; i <= 13; ++i) q = multiplyAdd(x2, q, c[i]);
  return x * p / q;
}

}  // namespace heed::simd
