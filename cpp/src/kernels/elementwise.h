#pragma once

#include "kernels/simd.h"

/// Elementary functions of four floats at once. The error bounds are those that elementwise_test.cpp measures against
/// double, with room.
namespace heed::simd {

/// Coefficients, to be broadcast from memory by one instruction each. From splat() V8 would make a vector anew at every
/// use, in four or five instructions; so the compiler must not know what the table holds.
template <size_t N>
class Table {
 public:
  explicit Table(const float (&values)[N]) : values_(values) { asm("" : "+r"(values_)); }
  v128_t operator[](size_t i) const { return wasm_v128_load32_splat(values_ + i); }

 private:
  const float* values_;
};

/// x four times.
template <float kX>
v128_t constant() {
  static constexpr float kValues[] = {kX};
  return Table(kValues)[0];
}

// The greatest argument, log2 e, what rounds, ln 2 in two parts, q's coefficients from the highest power on, 1, the
// least argument.
inline constexpr float kExp[] = {88.3f,           1.44269504f,    12582912.0f,    0.693359375f,
                                 -2.12194440e-4f, 0.00138145395f, 0.00836874545f, 0.0416683890f,
                                 0.166665211f,    0.499999940f,   1.0f,           -87.3f};

/// e^x within 2e-7 e^x; 0 below -87.3 (so for -inf), NaN for NaN. Arguments above 88.3 count as 88.3: finite, where e^x
/// would overflow next.
inline v128_t exp(v128_t x) {
  const Table c(kExp);
  // x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 2^23 rounds to an integer, which then stands in the sum's low bits:
  // shifted by 23 they are what 2^n adds to a float's exponent.
  const v128_t rounder = c[2];
  const v128_t y = minimum(x, c[0]);
  const v128_t shifted = multiplyAdd(y, c[1], rounder);
  const v128_t n = wasm_f32x4_sub(shifted, rounder);
  // ln 2 in two parts (Cody, Waite 1980); n times the first is exact.
  const v128_t r = multiplySubtract(n, c[4], multiplySubtract(n, c[3], y));
  // e^r = 1 + r + r^2 q(r), q minimax in the relative error; by even and odd powers (Estrin), as a chain would wait for
  // each of its steps.
  const v128_t r2 = wasm_f32x4_mul(r, r), one = c[10];
  const v128_t high = multiplyAdd(r2, c[5], multiplyAdd(r, c[6], c[7]));
  v128_t q = multiplyAdd(r2, high, multiplyAdd(r, c[8], c[9]));
  q = multiplyAdd(r2, q, wasm_f32x4_add(r, one));
  const v128_t power = wasm_i32x4_add(wasm_i32x4_shl(shifted, 23), one);  // 2^n: one's bits are those of 2^0
  return wasm_v128_andnot(wasm_f32x4_mul(q, power), wasm_f32x4_lt(x, c[11]));
}

/// 1 / (1 + e^-x) within 2e-7.
inline v128_t sigmoid(v128_t x) {
  const v128_t one = constant<1.0f>();
  return wasm_f32x4_div(one, wasm_f32x4_add(one, exp(wasm_f32x4_neg(x))));
}

/// tanh x = 2 sigmoid(2x) - 1 within 3e-7 (absolute: small x lose relative accuracy).
inline v128_t tanh(v128_t x) {
  const v128_t y = sigmoid(wasm_f32x4_add(x, x));
  return wasm_f32x4_sub(wasm_f32x4_add(y, y), splat(1.0f));
}

// The range, then the coefficients of the numerator and the denominator, highest power first.
inline constexpr float kErf[] = {4.0f,
                                 -4.0f,
                                 -2.72614225801306e-10f,
                                 2.77068142495902e-08f,
                                 -2.10102402082508e-06f,
                                 -5.69250639462346e-05f,
                                 -7.34990630326855e-04f,
                                 -2.95459980854025e-03f,
                                 -1.60960333262415e-02f,
                                 -1.45660718464996e-05f,
                                 -2.13374055278905e-04f,
                                 -1.68282697438203e-03f,
                                 -7.37332916720468e-03f,
                                 -1.42647390514189e-02f};

/// erf x within 4e-7: the odd rational approximation of Eigen and XLA, which reaches 1 at 4.
inline v128_t erf(v128_t x) {
  const Table c(kErf);
  x = maximum(minimum(x, c[0]), c[1]);
  const v128_t x2 = wasm_f32x4_mul(x, x);
  v128_t p = multiplyAdd(x2, c[2], c[3]);
  for (size_t i = 4; i <= 8; ++i) p = multiplyAdd(x2, p, c[i]);
  v128_t q = multiplyAdd(x2, c[9], c[10]);
  for (size_t i = 11; i <= 13; ++i) q = multiplyAdd(x2, q, c[i]);
  return wasm_f32x4_div(wasm_f32x4_mul(x, p), q);
}

/// x Phi(x) within 1e-6 + 4e-7 x Phi(x). Below -8 the product is 0 to that accuracy, and large x would only magnify
/// erf's last bit.
inline v128_t gelu(v128_t x) {
  x = maximum(x, constant<-8.0f>());
  const v128_t half = wasm_f32x4_mul(x, constant<0.5f>());
  return multiplyAdd(half, erf(wasm_f32x4_mul(x, constant<0.707106781f>())), half);
}

/// GELU's tanh form, x (1 + tanh(y)) / 2 = x sigmoid(2y) with y = sqrt(2 / pi) (x + 0.044715 x^3), with gelu's bound.
inline v128_t geluTanh(v128_t x) {
  const v128_t cubic =
      multiplyAdd(wasm_f32x4_mul(x, x), constant<2 * 0.797884561f * 0.044715f>(), constant<2 * 0.797884561f>());
  return wasm_f32x4_mul(x, sigmoid(wasm_f32x4_mul(x, cubic)));
}

inline v128_t relu(v128_t x) { return maximum(x, splat(0.0f)); }

inline v128_t silu(v128_t x) { return wasm_f32x4_mul(x, sigmoid(x)); }

}  // namespace heed::simd
