#pragma once

#include "core/elementary.h"
#include "heed/train/losses.h"
#include "train/ops/vectors.h"

/// Functions that several losses use.
namespace heed::train {

/// The (1, 1) value of a loss.
inline Matrix scalarOf(double value) {
  Matrix m(1, 1);
  *m.data() = static_cast<float>(value);
  return m;
}

/// The gradient of a loss as a number.
inline double seedOf(const Matrix& gradient) { return static_cast<double>(*gradient.data()); }

/// Throws kShapeMismatch unless there is one value per row.
void requireOnePerRow(const char* argument, size_t got, Index rows);

/// Throws kInvalidArgument unless all are finite and at least 0, or above 0.
void requireWeights(const losses::Factors& weights);
void requireExposure(const losses::Factors& exposure);

/// The divisor of a weighted mean over `count` entries: the sum of the weights. 1 if all weights are 0, so that the
/// mean is 0.
double totalOf(const losses::Factors& weights, Index count);

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), where `exponential` is e^-|x|, which does not overflow.
inline double softplus(double x, double exponential) { return std::max(x, 0.0) + elementary::log(1 + exponential); }

template <int N>
simd::Floats<N> negated(const simd::Floats<N>& x) {
  return x * simd::splat(-1);
}

/// out = e^-|x|.
inline void exponentialsOfNegatives(Index count, const float* x, float* out) {
  transform<2>(count, out, [](const auto& a) { return exp(minimum(a, negated(a))); }, x);
}

}  // namespace heed::train
