#pragma once

#include "kernels/simd.h"

/// Elementary functions of four floats at once. The error bounds are those that elementwise_test.cpp measures against
/// double, with room.
namespace heed::simd {

/// e^x within 2e-7 e^x; 0 below -87.3 (so for -inf), NaN for NaN. Arguments above 88.3 count as 88.3: finite, where e^x
/// would overflow next.
inline v128_t exp(v128_t x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 2^23 rounds to an integer, which then stands in the sum's low bits:
  // shifted by 23 they are the exponent of 2^n.
  const v128_t rounder = splat(12582912.0f);
  const v128_t y = minimum(x, splat(88.3f));
  const v128_t shifted = multiplyAdd(y, splat(1.44269504f), rounder);
  const v128_t n = wasm_f32x4_sub(shifted, rounder);
  // ln 2 in two parts (Cody, Waite 1980); n times the first is exact.
  const v128_t r = multiplySubtract(n, splat(-2.12194440e-4f), multiplySubtract(n, splat(0.693359375f), y));
  // e^r = 1 + r + r^2 q(r), q minimax in the relative error.
  v128_t q = multiplyAdd(r, splat(0.00138145395f), splat(0.00836874545f));
  q = multiplyAdd(r, q, splat(0.0416683890f));
  q = multiplyAdd(r, q, splat(0.166665211f));
  q = multiplyAdd(r, q, splat(0.499999940f));
  q = multiplyAdd(wasm_f32x4_mul(r, r), q, wasm_f32x4_add(r, splat(1.0f)));
  const v128_t power = wasm_i32x4_add(wasm_i32x4_shl(shifted, 23), wasm_i32x4_splat(127 << 23));
  return wasm_v128_andnot(wasm_f32x4_mul(q, power), wasm_f32x4_lt(x, splat(-87.3f)));
}

/// 1 / (1 + e^-x) within 2e-7.
inline v128_t sigmoid(v128_t x) {
  const v128_t one = splat(1.0f);
  return wasm_f32x4_div(one, wasm_f32x4_add(one, exp(wasm_f32x4_neg(x))));
}

/// tanh x = 2 sigmoid(2x) - 1 within 3e-7 (absolute: small x lose relative accuracy).
inline v128_t tanh(v128_t x) {
  const v128_t y = sigmoid(wasm_f32x4_add(x, x));
  return wasm_f32x4_sub(wasm_f32x4_add(y, y), splat(1.0f));
}

/// erf x within 4e-7: the odd rational approximation of Eigen and XLA, which reaches 1 at 4.
inline v128_t erf(v128_t x) {
  x = maximum(minimum(x, splat(4.0f)), splat(-4.0f));
  const v128_t x2 = wasm_f32x4_mul(x, x);
  v128_t p = multiplyAdd(x2, splat(-2.72614225801306e-10f), splat(2.77068142495902e-08f));
  p = multiplyAdd(x2, p, splat(-2.10102402082508e-06f));
  p = multiplyAdd(x2, p, splat(-5.69250639462346e-05f));
  p = multiplyAdd(x2, p, splat(-7.34990630326855e-04f));
  p = multiplyAdd(x2, p, splat(-2.95459980854025e-03f));
  p = multiplyAdd(x2, p, splat(-1.60960333262415e-02f));
  v128_t q = multiplyAdd(x2, splat(-1.45660718464996e-05f), splat(-2.13374055278905e-04f));
  q = multiplyAdd(x2, q, splat(-1.68282697438203e-03f));
  q = multiplyAdd(x2, q, splat(-7.37332916720468e-03f));
  q = multiplyAdd(x2, q, splat(-1.42647390514189e-02f));
  return wasm_f32x4_div(wasm_f32x4_mul(x, p), q);
}

/// x Phi(x) within 1e-6 + 4e-7 x Phi(x). Below -8 the product is 0 to that accuracy, and large x would only magnify
/// erf's last bit.
inline v128_t gelu(v128_t x) {
  x = maximum(x, splat(-8.0f));
  const v128_t half = wasm_f32x4_mul(x, splat(0.5f));
  return multiplyAdd(half, erf(wasm_f32x4_mul(x, splat(0.707106781f))), half);
}

/// GELU's tanh form, x (1 + tanh(y)) / 2 = x sigmoid(2y) with y = sqrt(2 / pi) (x + 0.044715 x^3), with gelu's bound.
inline v128_t geluTanh(v128_t x) {
  const v128_t cubic = multiplyAdd(wasm_f32x4_mul(x, x), splat(2 * 0.797884561f * 0.044715f), splat(2 * 0.797884561f));
  return wasm_f32x4_mul(x, sigmoid(wasm_f32x4_mul(x, cubic)));
}

inline v128_t relu(v128_t x) { return maximum(x, splat(0.0f)); }

inline v128_t silu(v128_t x) { return wasm_f32x4_mul(x, sigmoid(x)); }

}  // namespace heed::simd
