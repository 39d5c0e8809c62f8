#include "train/ops/update.h"

#include <cmath>

#include "core/check.h"
#include "ops/vectors.h"

namespace heed::train {
namespace {

constexpr int kVectors = 2;
using Vectors = simd::Floats<kVectors>;
Vectors loadVectors(const float* from) { return simd::loadFloats<kVectors>(from); }

/// base^n by squaring. pow() may differ in the last bit between engines, and trained parameters should not.
double integerPower(double base, int64_t n) {
  double power = 1;
  for (; n > 0; n /= 2, base *= base) {
    if (n % 2 == 1) power *= base;
  }
  return power;
}

/// a + (b - a) t, computed as in torch.lerp, which is exact at both ends.
Vectors interpolate(const Vectors& a, const Vectors& b, float t) {
  const Vectors change = b - a;
  return t < 0.5f ? a + change * simd::splat(t) : b - change * simd::splat(1 - t);
}

Vectors rootOf(const Vectors& x) {
  return each([](v128_t a) { return wasm_f32x4_sqrt(a); }, x);
}

/// Adam and AdamW: g' = g + l2 w, m += (1 - beta_1) (g' - m), v = beta_2 v + (1 - beta_2) g'^2, and
/// w = decay w - lr / (1 - beta_1^n) m / (sqrt(v) / sqrt(1 - beta_2^n) + eps). With amsgrad, the maximum of all v so
/// far replaces v in the last formula (Reddi, Kale, Kumar 2018, arXiv:1904.09237).
UpdateStep adamStep(const GroupOptions& options, int64_t n, float decay, double l2_factor) {
  const float l2 = static_cast<float>(l2_factor), one_minus_beta1 = static_cast<float>(1 - options.beta1),
              beta2 = static_cast<float>(options.beta2), one_minus_beta2 = static_cast<float>(1 - options.beta2),
              step_size = static_cast<float>(options.lr / (1 - integerPower(options.beta1, n))),
              inverse_correction = static_cast<float>(1 / std::sqrt(1 - integerPower(options.beta2, n))),
              eps = static_cast<float>(options.eps);
  const bool amsgrad = options.amsgrad;
  return [=](Index count, const float* g, float* const* moments, float* w) {
    const auto at = [=](float* m_at, float* v_at, float* highest_at, float* w_at, const float* g_at) {
      const Vectors weight = loadVectors(w_at) * simd::splat(decay);
      Vectors gradient = loadVectors(g_at);
      if (l2 != 0) gradient = gradient + weight * simd::splat(l2);
      const Vectors first = interpolate(loadVectors(m_at), gradient, one_minus_beta1);
      Vectors second = loadVectors(v_at) * simd::splat(beta2) + gradient * simd::splat(one_minus_beta2) * gradient;
      store(m_at, first);
      store(v_at, second);
      if (highest_at) {
        second = maximum(second, loadVectors(highest_at));
        store(highest_at, second);
      }
      const Vectors denominator = rootOf(second) * simd::splat(inverse_correction) + simd::splat(eps);
      store(w_at, weight - first * simd::splat(step_size) / denominator);
    };
    if (amsgrad) return forVectors<kVectors>(count, 4, at, moments[0], moments[1], moments[2], w, g);
    forVectors<kVectors>(
        count, 3,
        [at](float* m_at, float* v_at, float* w_at, const float* g_at) { at(m_at, v_at, nullptr, w_at, g_at); },
        moments[0], moments[1], w, g);
  };
}

/// g' = g + l2 w. With momentum m = momentum m + g', and w -= lr m or lr (g' + momentum m); otherwise w -= lr g'.
UpdateStep sgdStep(const GroupOptions& options, int64_t, float) {
  const float lr = static_cast<float>(options.lr), l2 = static_cast<float>(options.weight_decay),
              momentum = static_cast<float>(options.momentum);
  const bool nesterov = options.nesterov;
  return [=](Index count, const float* g, float* const* moments, float* w) {
    if (momentum == 0) {
      return forVectors<kVectors>(
          count, 1,
          [=](float* w_at, const float* g_at) {
            const Vectors weight = loadVectors(w_at);
            const Vectors gradient = loadVectors(g_at) + weight * simd::splat(l2);
            store(w_at, weight - gradient * simd::splat(lr));
          },
          w, g);
    }
    forVectors<kVectors>(
        count, 2,
        [=](float* m_at, float* w_at, const float* g_at) {
          const Vectors weight = loadVectors(w_at);
          const Vectors gradient = loadVectors(g_at) + weight * simd::splat(l2);
          const Vectors buffer = loadVectors(m_at) * simd::splat(momentum) + gradient;
          store(m_at, buffer);
          const Vectors direction = nesterov ? gradient + buffer * simd::splat(momentum) : buffer;
          store(w_at, weight - direction * simd::splat(lr));
        },
        moments[0], w, g);
  };
}

/// RMSprop (Tieleman, Hinton 2012, Coursera, lecture 6.5): g' = g + l2 w, v = alpha v + (1 - alpha) g'^2, and centered
/// a += (1 - alpha) (g' - a). The direction is d = g' / (sqrt(v - a^2) + eps), where a = 0 unless centered. With
/// momentum m = momentum m + d, and w -= lr m; otherwise w -= lr d.
UpdateStep rmspropStep(const GroupOptions& options, int64_t, float) {
  const float lr = static_cast<float>(options.lr), l2 = static_cast<float>(options.weight_decay),
              momentum = static_cast<float>(options.momentum), alpha = static_cast<float>(options.alpha),
              one_minus_alpha = static_cast<float>(1 - options.alpha), eps = static_cast<float>(options.eps);
  const bool centered = options.centered;
  return [=](Index count, const float* g, float* const* moments, float* w) {
    // The arrays that the options leave out are replaced by w, and not used.
    forVectors<kVectors>(
        count, 4,
        [=](float* v_at, float* m_at, float* a_at, float* w_at, const float* g_at) {
          const Vectors weight = loadVectors(w_at);
          const Vectors gradient = loadVectors(g_at) + weight * simd::splat(l2);
          const Vectors second =
              loadVectors(v_at) * simd::splat(alpha) + gradient * simd::splat(one_minus_alpha) * gradient;
          store(v_at, second);
          Vectors variance = second;
          if (centered) {
            const Vectors mean = interpolate(loadVectors(a_at), gradient, one_minus_alpha);
            store(a_at, mean);
            variance = second - mean * mean;
          }
          Vectors direction = gradient / (rootOf(variance) + simd::splat(eps));
          if (momentum > 0) {
            direction = loadVectors(m_at) * simd::splat(momentum) + direction;
            store(m_at, direction);
          }
          store(w_at, weight - direction * simd::splat(lr));
        },
        moments[0], momentum > 0 ? moments[1] : w, centered ? moments[momentum > 0 ? 2 : 1] : w, w, g);
  };
}

std::vector<Moment> sgdMoments(const GroupOptions& options, const Shape& shape) {
  if (options.momentum == 0) return {};
  return {{"momentum_buffer", shape}};
}
std::vector<Moment> adamMoments(const GroupOptions& options, const Shape& shape) {
  std::vector<Moment> moments{{"exp_avg", shape}, {"exp_avg_sq", shape}};
  if (options.amsgrad) moments.push_back({"max_exp_avg_sq", shape});
  return moments;
}
std::vector<Moment> rmspropMoments(const GroupOptions& options, const Shape& shape) {
  std::vector<Moment> moments{{"square_avg", shape}};
  if (options.momentum > 0) moments.push_back({"momentum_buffer", shape});
  if (options.centered) moments.push_back({"grad_avg", shape});
  return moments;
}

constexpr UpdateRule kRules[] = {
    {"SGD", false, sgdMoments, sgdStep, nullptr, nullptr},
    {"Adam", false, adamMoments,
     [](const GroupOptions& o, int64_t n, float decay) { return adamStep(o, n, decay, o.weight_decay); }, nullptr,
     nullptr},
    {"AdamW", true, adamMoments, [](const GroupOptions& o, int64_t n, float decay) { return adamStep(o, n, decay, 0); },
     nullptr, nullptr},
    {"RMSprop", false, rmspropMoments, rmspropStep, nullptr, nullptr},
    {"Adafactor", true, adafactorMoments, nullptr, adafactorStep, adafactorScratch},
};

}  // namespace

const UpdateRule& updateRule(std::string_view name) {
  for (const UpdateRule& rule : kRules) {
    if (rule.name == name) return rule;
  }
  throwInvalid(ErrorCode::kInvalidArgument, "optimizer", "the name of an optimizer", std::string(name));
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
