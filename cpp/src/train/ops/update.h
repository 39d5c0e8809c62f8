#pragma once

#include "heed/tensor.h"

/// The arithmetic of optimizers on arrays of `count` elements, in PyTorch's order.
/// Notation: w parameter, g gradient, m and v its moments.
namespace heed::train {

/// The factors of one step of Adam or AdamW.
struct AdamFactors {
  float decay;               ///< of the parameter, 1 - lr wd for AdamW, otherwise 1
  float l2;                  ///< wd for Adam, otherwise 0
  float forget1;             ///< 1 - beta_1
  float beta2, forget2;      ///< beta_2 and 1 - beta_2
  float step_size;           ///< lr / (1 - beta_1^n)
  float inverse_correction;  ///< 1 / sqrt(1 - beta_2^n)
  float eps;
};

/// g' = g + l2 w, m += (1 - beta_1) (g' - m), v = beta_2 v + (1 - beta_2) g'^2, and
/// w = decay w - step_size m / (sqrt(v) / sqrt(1 - beta_2^n) + eps).
void adam(const AdamFactors& factors, Index count, const float* g, float* m, float* v, float* w);

/// The factors of one step of SGD.
struct SgdFactors {
  float lr, l2, momentum;
  bool nesterov;
};

/// g' = g + l2 w. With momentum m = momentum m + g', and w -= lr m or lr (g' + momentum m); otherwise w -= lr g', and m
/// is null.
void sgd(const SgdFactors& factors, Index count, const float* g, float* m, float* w);

/// x *= factor.
void scaleBy(float factor, Index count, float* x);

/// Whether no element is infinite or NaN.
bool allFinite(Index count, const float* x);

/// The sum of squares, in double.
double squaresOf(Index count, const float* x);

}  // namespace heed::train
