/// Y = phi(X), backward dX = dY * phi'(X) with
///
///   relu'      1 if x > 0, otherwise 0
///   gelu'      Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi), Phi(x) = (1 + erf(x / sqrt(2))) / 2
///   geluTanh'  s + x s (1 - s) u', where s = sigmoid(u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3)
///   tanh'      1 - tanh(x)^2
///   sigmoid'   s (1 - s), s = sigmoid(x)
///   silu'      s (1 + x (1 - s))
///   quickGelu' s (1 + c x (1 - s)), s = sigmoid(c x), c = 1.702
///
/// Gate with X = [A, B] or [B, A]: Y = phi(A) * B, backward dA = dY * B * phi'(A), dB = dY * phi(A).
#include <algorithm>

#include "core/check.h"
#include "heed/activation.h"
#include "heed/train/ops.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

using simd::Floats;

/// x clamped to [-kBound, kBound]. Beyond it derivatives are constant in fp32, but their formulas would give infinity
/// times 0. NaN stays NaN.
template <float kBound, int N>
Floats<N> clamped(const Floats<N>& x) {
  return maximum(minimum(x, simd::constant<kBound>()), simd::constant<-kBound>());
}

template <int N>
Floats<N> reluGradient(const Floats<N>& x, const Floats<N>& dy) {
  return each([](v128_t a, v128_t b) { return wasm_v128_andnot(b, wasm_f32x4_le(a, simd::splat(0))); }, x, dy);
}

template <int N>
Floats<N> geluGradient(const Floats<N>& any, const Floats<N>& dy) {
  const Floats<N> x = clamped<16.0f>(any), half(simd::constant<0.5f>());
  const Floats<N> density = exp(x * x * simd::constant<-0.5f>()) * simd::constant<0.398942280f>();
  const Floats<N> distribution = multiplyAdd(erf(x * simd::constant<0.707106781f>()), half, half);
  return dy * multiplyAdd(x, density, distribution);
}

template <int N>
Floats<N> geluTanhGradient(const Floats<N>& any, const Floats<N>& dy) {
  constexpr float kSlope = 2 * 0.797884561f;
  const Floats<N> x = clamped<32.0f>(any), x2 = x * x;
  const Floats<N> s = sigmoid(x * multiplyAdd(x2, simd::constant<kSlope * 0.044715f>(), simd::constant<kSlope>()));
  const Floats<N> slope = multiplyAdd(x2, simd::constant<3 * kSlope * 0.044715f>(), simd::constant<kSlope>());
  return dy * multiplyAdd(x * slope, s * (Floats<N>(simd::constant<1.0f>()) - s), s);
}

template <int N>
Floats<N> tanhGradient(const Floats<N>& x, const Floats<N>& dy) {
  // With s = sigmoid(2 x), 1 - tanh(x)^2 = 4 s (1 - s).
  const Floats<N> s = sigmoid(x + x);
  return dy * (s * simd::constant<4.0f>() * (Floats<N>(simd::constant<1.0f>()) - s));
}

template <int N>
Floats<N> sigmoidGradient(const Floats<N>& x, const Floats<N>& dy) {
  const Floats<N> s = sigmoid(x);
  return dy * (s * (Floats<N>(simd::constant<1.0f>()) - s));
}

template <int N>
Floats<N> siluGradient(const Floats<N>& any, const Floats<N>& dy) {
  const Floats<N> x = clamped<88.0f>(any), s = sigmoid(x), one(simd::constant<1.0f>());
  return dy * (s * multiplyAdd(x, one - s, one));
}

template <int N>
Floats<N> quickGeluGradient(const Floats<N>& any, const Floats<N>& dy) {
  return siluGradient(any * simd::constant<1.702f>(), dy);
}

/// dx = dy * phi'(x); dx may be dy.
void activationGradient(Index count, const float* x, const float* dy, float* dx, Activation activation) {
  switch (activation) {
    case Activation::kIdentity:
      std::copy_n(dy, count, dx);
      return;
    case Activation::kRelu:
      return transform<4>(count, dx, [](const auto& a, const auto& b) { return reluGradient(a, b); }, x, dy);
    case Activation::kGelu:
      return transform<4>(count, dx, [](const auto& a, const auto& b) { return geluGradient(a, b); }, x, dy);
    case Activation::kGeluTanh:
      return transform<2>(count, dx, [](const auto& a, const auto& b) { return geluTanhGradient(a, b); }, x, dy);
    case Activation::kTanh:
      return transform<2>(count, dx, [](const auto& a, const auto& b) { return tanhGradient(a, b); }, x, dy);
    case Activation::kSigmoid:
      return transform<2>(count, dx, [](const auto& a, const auto& b) { return sigmoidGradient(a, b); }, x, dy);
    case Activation::kSilu:
      return transform<2>(count, dx, [](const auto& a, const auto& b) { return siluGradient(a, b); }, x, dy);
    case Activation::kQuickGelu:
      return transform<2>(count, dx, [](const auto& a, const auto& b) { return quickGeluGradient(a, b); }, x, dy);
  }
}

/// y = phi(x), in parts that stay in the first-level cache between the copy and phi.
void applyTo(const Matrix& x, Activation activation, Matrix& y) {
  constexpr Index kPart = 2048;
  for (Index first = 0, count; first < sizeOf(x); first += count) {
    count = std::min(kPart, sizeOf(x) - first);
    std::copy_n(x.data() + first, count, y.data() + first);
    heed::activate(y.data() + first, count, activation);
  }
}

}  // namespace

Variable activate(Graph& graph, const Variable& x, Activation activation) {
  if (activation == Activation::kIdentity) return x;
  const auto value = [kept = x.shared(), activation] {
    Matrix y(kept->rows(), kept->cols());
    applyTo(*kept, activation, y);
    return y;
  };
  return graph
      .record(value(), {x}, false,
              [kept = x.shared(), node = x.node(), activation](Matrix& gradient, Backward& pass) {
                activationGradient(sizeOf(gradient), kept->data(), gradient.data(), gradient.data(), activation);
                pass.give(node, std::move(gradient));
              })
      .recomputedBy(value);
}

Variable gate(Graph& graph, const Variable& x, Activation activation, bool second) {
  if (x.cols() % 2 != 0) refuseShape("x", "an even number of columns", Shape{x.rows(), x.cols()});
  const Index width = x.cols() / 2, first_a = second ? width : 0, first_b = width - first_a;
  const auto value = [kept = x.shared(), activation, width, first_a, first_b] {
    Matrix y(kept->rows(), width);
    y.view() = kept->values().middleCols(first_a, width);
    heed::activate(y.data(), sizeOf(y), activation);
    y.view().array() *= kept->values().middleCols(first_b, width).array();
    return y;
  };
  return graph
      .record(value(), {x}, false,
              [kept = x.shared(), node = x.node(), activation, first_a, first_b](Matrix& dy, Backward& pass) {
                const Index columns = dy.cols();
                Matrix dx(kept->rows(), kept->cols());
                for (Index t = 0; t < dx.rows(); ++t) {
                  const float *row = kept->data() + t * 2 * columns, *a = row + first_a, *b = row + first_b;
                  float *dx_row = dx.data() + t * 2 * columns, *da = dx_row + first_a, *db = dx_row + first_b;
                  const float* out = dy.data() + t * columns;
                  const auto product = [](const auto& p, const auto& q) { return p * q; };
                  std::copy_n(a, columns, db);
                  heed::activate(db, columns, activation);
                  transform<4>(columns, db, product, db, out);
                  transform<4>(columns, da, product, b, out);
                  activationGradient(columns, a, da, da, activation);
                }
                pass.give(node, std::move(dx));
              })
      .recomputedBy(value);
}

}  // namespace heed::train
