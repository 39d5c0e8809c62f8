#include "train/ops/update.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "core/check.h"
#include "train/ops/vectors.h"

namespace heed::train {
namespace {

constexpr int kVectors = 2;
using Vectors = simd::Floats<kVectors>;
constexpr Index kStep = 4 * kVectors;

Vectors loadVectors(const float* from) { return simd::loadFloats<kVectors>(from); }

/// Calls f(pointers into the arrays) once per kStep elements; f may change the arrays that are not const. The last,
/// incomplete step is padded with zeros.
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

/// base^n by squaring. pow() may differ in the last bit between engines, and trained parameters should not.
double integerPower(double base, int64_t n) {
  double power = 1;
  for (; n > 0; n /= 2, base *= base) {
    if (n % 2 == 1) power *= base;
  }
  return power;
}

/// Adam and AdamW: g' = g + l2 w, m += (1 - beta_1) (g' - m), v = beta_2 v + (1 - beta_2) g'^2, and
/// w = decay w - lr / (1 - beta_1^n) m / (sqrt(v) / sqrt(1 - beta_2^n) + eps).
UpdateStep adamStep(const GroupOptions& options, int64_t n, float decay, double l2_factor) {
  const float l2 = static_cast<float>(l2_factor), one_minus_beta1 = static_cast<float>(1 - options.beta1),
              beta2 = static_cast<float>(options.beta2), one_minus_beta2 = static_cast<float>(1 - options.beta2),
              step_size = static_cast<float>(options.lr / (1 - integerPower(options.beta1, n))),
              inverse_correction = static_cast<float>(1 / std::sqrt(1 - integerPower(options.beta2, n))),
              eps = static_cast<float>(options.eps);
  return [=](Index count, const float* g, float* m, float* v, float* w) {
    inVectors(
        count,
        [=](const float* g_at, float* m_at, float* v_at, float* w_at) {
          const Vectors weight = loadVectors(w_at) * simd::splat(decay);
          Vectors gradient = loadVectors(g_at);
          if (l2 != 0) gradient = gradient + weight * simd::splat(l2);
          const Vectors before = loadVectors(m_at), change = gradient - before;
          // Computed as in torch.lerp, which is exact at both ends.
          const Vectors first = one_minus_beta1 < 0.5f ? before + change * simd::splat(one_minus_beta1)
                                                       : gradient - change * simd::splat(1 - one_minus_beta1);
          const Vectors second =
              loadVectors(v_at) * simd::splat(beta2) + gradient * simd::splat(one_minus_beta2) * gradient;
          store(m_at, first);
          store(v_at, second);
          const Vectors root = each([](v128_t x) { return wasm_f32x4_sqrt(x); }, second);
          const Vectors denominator = root * simd::splat(inverse_correction) + simd::splat(eps);
          store(w_at, weight - first * simd::splat(step_size) / denominator);
        },
        g, m, v, w);
  };
}

/// g' = g + l2 w. With momentum m = momentum m + g', and w -= lr m or lr (g' + momentum m); otherwise w -= lr g'.
UpdateStep sgdStep(const GroupOptions& options, int64_t, float) {
  const float lr = static_cast<float>(options.lr), l2 = static_cast<float>(options.weight_decay),
              momentum = static_cast<float>(options.momentum);
  const bool nesterov = options.nesterov;
  return [=](Index count, const float* g, float* m, float*, float* w) {
    if (momentum == 0) {
      return inVectors(
          count,
          [=](const float* g_at, float* w_at) {
            const Vectors weight = loadVectors(w_at);
            const Vectors gradient = loadVectors(g_at) + weight * simd::splat(l2);
            store(w_at, weight - gradient * simd::splat(lr));
          },
          g, w);
    }
    inVectors(
        count,
        [=](const float* g_at, float* m_at, float* w_at) {
          const Vectors weight = loadVectors(w_at);
          const Vectors gradient = loadVectors(g_at) + weight * simd::splat(l2);
          const Vectors buffer = loadVectors(m_at) * simd::splat(momentum) + gradient;
          store(m_at, buffer);
          const Vectors direction = nesterov ? gradient + buffer * simd::splat(momentum) : buffer;
          store(w_at, weight - direction * simd::splat(lr));
        },
        g, m, w);
  };
}

std::vector<const char*> sgdMoments(const GroupOptions& options) {
  if (options.momentum == 0) return {};
  return {"momentum_buffer"};
}
std::vector<const char*> adamMoments(const GroupOptions&) { return {"exp_avg", "exp_avg_sq"}; }

constexpr UpdateRule kRules[] = {
    {"SGD", false, sgdMoments, sgdStep},
    {"Adam", false, adamMoments,
     [](const GroupOptions& o, int64_t n, float decay) { return adamStep(o, n, decay, o.weight_decay); }},
    {"AdamW", true, adamMoments,
     [](const GroupOptions& o, int64_t n, float decay) { return adamStep(o, n, decay, 0); }},
};

}  // namespace

const UpdateRule& updateRule(std::string_view name) {
  for (const UpdateRule& rule : kRules) {
    if (rule.name == name) return rule;
  }
  refuse(ErrorCode::kInvalidArgument, "optimizer", "the name of an optimizer", std::string(name));
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
      // Each vector of doubles takes two floats.
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
