#include "train/ops/update.h"

#include <type_traits>
#include <utility>

#include "train/ops/vectors.h"

namespace heed::train {
namespace {

constexpr int kVectors = 2;
using Vectors = simd::Floats<kVectors>;
constexpr Index kStep = 4 * kVectors;

Vectors loadVectors(const float* from) { return simd::loadFloats<kVectors>(from); }

/// Calls f(pointers) for every kStep elements of the arrays, of which f changes those that are not const. The last,
/// incomplete elements are filled up with zeros.
template <class F, class... Floats>
void inVectors(Index count, const F& f, Floats*... arrays) {
  Index i = 0;
  for (; i + kStep <= count; i += kStep) f((arrays + i)...);
  if (i == count) return;
  const auto bytes = static_cast<size_t>(count - i) * sizeof(float);
  float tails[sizeof...(Floats)][kStep] = {};
  const auto with_tails = [&]<size_t... K>(std::index_sequence<K...>) {
    (std::memcpy(tails[K], arrays + i, bytes), ...);
    f(static_cast<Floats*>(tails[K])...);
    const auto copy_back = [&](auto* to, const float* from) {
      if constexpr (!std::is_const_v<std::remove_pointer_t<decltype(to)>>) std::memcpy(to, from, bytes);
    };
    (copy_back(arrays + i, tails[K]), ...);
  };
  with_tails(std::index_sequence_for<Floats...>{});
}

}  // namespace

void adam(const AdamFactors& factors, Index count, const float* g, float* m, float* v, float* w) {
  // A copy, which the compiler knows to be unchanged by the stores.
  const AdamFactors f = factors;
  inVectors(
      count,
      [&f](const float* g_at, float* m_at, float* v_at, float* w_at) {
        const Vectors weight = loadVectors(w_at) * simd::splat(f.decay);
        Vectors gradient = loadVectors(g_at);
        if (f.l2 != 0) gradient = gradient + weight * simd::splat(f.l2);
        const Vectors before = loadVectors(m_at), change = gradient - before;
        // torch.lerp, which is exact at both ends.
        const Vectors first = f.forget1 < 0.5f ? before + change * simd::splat(f.forget1)
                                               : gradient - change * simd::splat(1 - f.forget1);
        const Vectors second = loadVectors(v_at) * simd::splat(f.beta2) + gradient * simd::splat(f.forget2) * gradient;
        store(m_at, first);
        store(v_at, second);
        const Vectors root = each([](v128_t x) { return wasm_f32x4_sqrt(x); }, second);
        const Vectors denominator = root * simd::splat(f.inverse_correction) + simd::splat(f.eps);
        store(w_at, weight - first * simd::splat(f.step_size) / denominator);
      },
      g, m, v, w);
}

void sgd(const SgdFactors& factors, Index count, const float* g, float* m, float* w) {
  const SgdFactors f = factors;
  if (!m) {
    return inVectors(
        count,
        [&f](const float* g_at, float* w_at) {
          const Vectors weight = loadVectors(w_at);
          const Vectors gradient = loadVectors(g_at) + weight * simd::splat(f.l2);
          store(w_at, weight - gradient * simd::splat(f.lr));
        },
        g, w);
  }
  inVectors(
      count,
      [&f](const float* g_at, float* m_at, float* w_at) {
        const Vectors weight = loadVectors(w_at);
        const Vectors gradient = loadVectors(g_at) + weight * simd::splat(f.l2);
        const Vectors buffer = loadVectors(m_at) * simd::splat(f.momentum) + gradient;
        store(m_at, buffer);
        const Vectors direction = f.nesterov ? gradient + buffer * simd::splat(f.momentum) : buffer;
        store(w_at, weight - direction * simd::splat(f.lr));
      },
      g, m, w);
}

void scaleBy(float factor, Index count, float* x) {
  const v128_t four = simd::splat(factor);
  transform<4>(count, x, [four](const auto& a) { return a * four; }, x);
}

bool allFinite(Index count, const float* x) {
  // 0 times infinity or NaN is NaN.
  return sumOver(count, [](const auto& a) { return a * simd::splat(0); }, x) == 0;
}

double squaresOf(Index count, const float* x) {
  v128_t sums[4];
  HEED_UNROLL
  for (v128_t& sum : sums) sum = wasm_f64x2_splat(0);
  Index i = 0;
  for (; i + 8 <= count; i += 8) {
    HEED_UNROLL
    for (int half = 0; half < 4; ++half) {
      // Two floats each.
      const v128_t two = wasm_f64x2_promote_low_f32x4(wasm_v128_load64_zero(x + i + 2 * half));
      sums[half] = wasm_f64x2_add(sums[half], wasm_f64x2_mul(two, two));
    }
  }
  const v128_t sum = wasm_f64x2_add(wasm_f64x2_add(sums[0], sums[1]), wasm_f64x2_add(sums[2], sums[3]));
  double total = wasm_f64x2_extract_lane(sum, 0) + wasm_f64x2_extract_lane(sum, 1);
  for (; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

}  // namespace heed::train
