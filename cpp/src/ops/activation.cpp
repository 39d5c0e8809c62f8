/// Elementwise activations y = phi(x); their formulas are in ops/activations.h.
#include "heed/activation.h"

#include <cstring>

#include "core/check.h"
#include "ops/activations.h"

namespace heed {

namespace {

/// x <- phi(x).
template <class Phi>
void apply(float* x, Index count) {
  constexpr Index kStep = 4 * Phi::kVectors;
  Index i = 0;
  for (; i + kStep <= count; i += kStep) simd::store(x + i, Phi::value(simd::loadFloats<Phi::kVectors>(x + i)));
  if (i == count) return;
  float tail[kStep] = {};
  const auto bytes = static_cast<size_t>(count - i) * sizeof(float);
  std::memcpy(tail, x + i, bytes);
  simd::store(tail, Phi::value(simd::loadFloats<Phi::kVectors>(tail)));
  std::memcpy(x + i, tail, bytes);
}
template <>
void apply<activations::Identity>(float*, Index) {}

template <class List>
struct ActivationTable;
template <class... Phi>
struct ActivationTable<activations::List<Phi...>> {
  static constexpr std::string_view kNames[] = {Phi::kName...};
  static constexpr void (*kFunctions[])(float*, Index) = {apply<Phi>...};
};
using Activations = ActivationTable<activations::All>;

}  // namespace

Activation activationNamed(std::string_view name) {
  return static_cast<Activation>(indexOfName("activation", name, Activations::kNames));
}

void activate(float* x, Index count, Activation activation) {
  Activations::kFunctions[static_cast<size_t>(activation)](x, count);
}

void activate(MatrixView x, Activation activation) {
  for (Index i = 0; i < x.rows(); ++i) activate(x.data() + i * x.outerStride(), x.cols(), activation);
}

}  // namespace heed
