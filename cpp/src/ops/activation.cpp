/// Elementwise activations y = phi(x); their formulas are in ops/activations.h.
#include "heed/activation.h"

#include <array>

#include "core/check.h"
#include "ops/activations.h"
#include "ops/vectors.h"

namespace heed {

namespace {

/// x <- phi(x).
template <class Phi>
void apply(float* x, Index count) {
  transform<Phi::kVectors>(count, x, [](const auto& a) { return Phi::value(a); }, x);
}

template <class... Phi>
constexpr auto namesOf(activations::List<Phi...>) {
  return std::array{Phi::kName...};
}
template <class... Phi>
constexpr auto functionsOf(activations::List<Phi...>) {
  return std::array{apply<Phi>...};
}

}  // namespace

Activation activationNamed(std::string_view name) {
  static constexpr auto kNames = namesOf(activations::All());
  return static_cast<Activation>(indexOfName("activation", name, kNames));
}

void activate(float* x, Index count, Activation activation) {
  static constexpr auto kFunctions = functionsOf(activations::All());
  if (activation != Activation::kIdentity) kFunctions[static_cast<size_t>(activation)](x, count);
}

void activate(MatrixView x, Activation activation) {
  for (Index i = 0; i < x.rows(); ++i) activate(x.data() + i * x.outerStride(), x.cols(), activation);
}

}  // namespace heed
