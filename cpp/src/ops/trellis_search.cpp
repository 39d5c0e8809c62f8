#include "ops/trellis_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "gemm/simd.h"

namespace heed {
namespace {

/// Weights whose step is below this fraction of the largest one are ignored: their numbers hardly change the error.
constexpr float kLeastStep = 1e-6F;

/// Targets are clamped to this many steps, which keeps squares precise. Larger ones get the extreme levels anyway.
constexpr float kMostSteps = 32768;

/// The costs of paths are in units of the square of the current weight's step, so that errors need no factor.
struct Weight {
  float target;  // in steps
  float ratio;   // the unit of this weight / the unit of the next one
  bool counts;
};

/// Costs in single precision.
struct FloatCosts {
  using Number = float;
  static constexpr int kLanes = 4;
  static constexpr Number kUnreachable = 1e30F;
  static constexpr float kMostTarget = std::numeric_limits<float>::infinity();
  static constexpr float kLeastUnit = 0;

  static Number scaled(float levels) { return levels; }
  static Number scaled(int level) { return static_cast<Number>(level); }
  static v128_t splat(Number x) { return simd::splat(x); }
  static v128_t minimum(v128_t a, v128_t b) { return simd::minimum(a, b); }
  static v128_t withError(v128_t cost, v128_t target, v128_t level) {
    const v128_t error = wasm_f32x4_sub(target, level);
    return wasm_f32x4_add(cost, wasm_f32x4_mul(error, error));
  }
  static void transpose(v128_t (&rows)[kLanes]) { simd::transpose4x4(rows); }
  /// (costs - least) ratio.
  static void convert(Number* costs, Index count, Number least, float ratio) {
    const v128_t leasts = splat(least), ratios = splat(ratio);
    for (Index i = 0; i < count; i += kLanes)
      simd::store(costs + i, wasm_f32x4_mul(wasm_f32x4_sub(simd::load(costs + i), leasts), ratios));
  }
};

/// Costs in 16 bits, twice as fast, for sequences whose targets and units are within its limits. Rounding them makes
/// the error of a sequence 0.02 to 0.1 % larger.
struct IntegerCosts {
  using Number = int16_t;
  static constexpr int kLanes = 8;
  static constexpr Number kUnreachable = 32767;
  static constexpr int kScale = 64;                // a level in these numbers; squares are divided by 2^15
  static constexpr float kMostTarget = 511;        // in steps, so that 64 times the target fits
  static constexpr float kLeastUnit = 1 / 1024.F;  // relative to the largest one: converted costs fit into 16 bits

  static Number scaled(float levels) { return static_cast<Number>(std::lrint(kScale * levels)); }
  static Number scaled(int level) { return static_cast<Number>(kScale * level); }
  static v128_t splat(Number x) { return wasm_i16x8_splat(x); }
  static v128_t minimum(v128_t a, v128_t b) { return wasm_u16x8_min(a, b); }
  /// At least kUnreachable if the error is -2^15, whose square depends on the instruction set.
  static v128_t withError(v128_t cost, v128_t target, v128_t level) {
    const v128_t error = wasm_i16x8_sub_sat(target, level);
    return wasm_u16x8_add_sat(cost, simd::multiplyQ15(error, error));
  }
  static void transpose(v128_t (&rows)[kLanes]) { simd::transpose8x8(rows); }
  static void convert(Number* costs, Index count, Number least, float ratio) {
    int doublings = 0;
    while (ratio > 1) {
      ratio /= 2;
      ++doublings;
    }
    const auto factor = static_cast<Number>(std::min(32767L, std::lrint(ratio * 32768)));
    const v128_t leasts = splat(least), factors = splat(factor);
    for (Index i = 0; i < count; i += kLanes) {
      v128_t x = wasm_i16x8_sub(simd::load(costs + i), leasts);
      for (int n = 0; n < doublings; ++n) x = wasm_i16x8_add_sat(x, x);
      simd::store(costs + i, ratio == 1 ? x : simd::multiplyQ15(x, factors));
    }
  }
};

/// Returns false if a target or a unit is beyond the limits (see IntegerCosts).
bool prepare(Index length, const float* targets, const float* steps, float most_target, float least_unit,
             Weight* weights) {
  float largest = 0;
  for (Index k = 0; k < length; ++k) largest = std::max(largest, std::abs(steps[k]));
  bool fits = true;
  float unit = 1;
  for (Index k = 0; k < length; ++k) {
    const float share = std::abs(steps[k]) / largest;
    weights[k] = {0, 1, share > kLeastStep};
    if (!weights[k].counts) continue;
    const float target = targets[k] / steps[k], own = share * share;
    fits = fits && std::abs(target) <= most_target && own >= least_unit;
    weights[k].target = std::clamp(target, -kMostSteps, kMostSteps);
    if (k > 0) weights[k - 1].ratio = unit / own;
    unit = own;
  }
  return fits;
}

/// A state is the number h of its oldest weight, followed by the rest, its *memory*. The memory of the next state
/// consists of the lower digits of this one: memory m = p Q + q is reached by the number q from the memories h P + p of
/// all h. For each memory, the cost of the best of these Q paths is kept; the paths are found from the costs at the
/// end.
template <class Costs>
class Search {
 public:
  using Number = typename Costs::Number;

  explicit Search(int bits)
      : numbers_(Index{1} << bits), memories_(kTrellisStates / numbers_), prefixes_(memories_ / numbers_) {}

  /// Returns false, without writing states, if the sequence is beyond the range of the costs.
  bool run(Index length, const float* targets, const float* steps, uint16_t* states, Arena& arena) const {
    const Arena::Scope scope(arena);
    auto* weights = arena.take<Weight>(length);
    if (!prepare(length, targets, steps, Costs::kMostTarget, Costs::kLeastUnit, weights)) return false;
    auto* levels = arena.take<Number>(kTrellisStates);
    auto* zeros = arena.take<Number>(kTrellisStates);  // levels of weights that do not count
    std::fill_n(zeros, kTrellisStates, Number{0});
    Number* to = levels;
    forTiles([&](Index p, Index q) {
      for (Index h = 0; h < numbers_; ++h) {
        for (Index i = 0; i < kLanes; ++i) {
          for (Index lane = 0; lane < kLanes; ++lane)
            *to++ = Costs::scaled(trellisLevel((h * prefixes_ + p + lane) * numbers_ + q + i));
        }
      }
    });
    auto* costs = arena.take<Number>(Shape{length + 1, memories_}.size());  // before each weight, and after the last
    costs[0] = 0;
    Index reached = 1;  // before weight k, memories from Q^k on are not
    for (Index k = 0; k < length; ++k) {
      Number *own = costs + k * memories_, *next = own + memories_;
      if (reached < memories_) {
        std::fill(own + reached, own + memories_, Costs::kUnreachable);
        reached *= numbers_;
      }
      const Number least = advance(weights[k].counts ? levels : zeros, Costs::scaled(weights[k].target), own, next);
      Costs::convert(next, memories_, least, weights[k].ratio);
    }
    const Number* last = costs + length * memories_;
    Index memory = std::min_element(last, last + std::min(reached, memories_)) - last;
    for (Index k = length; k-- > 0;) {
      const Index h = oldest(weights[k], costs + k * memories_, memory);
      states[k] = static_cast<uint16_t>(h * memories_ + memory);
      memory = h * prefixes_ + memory / numbers_;
    }
    return true;
  }

 private:
  static constexpr int kLanes = Costs::kLanes;

  /// Calls f(p, q) for tiles of kLanes x kLanes memories.
  template <class F>
  void forTiles(const F& f) const {
    for (Index p = 0; p < prefixes_; p += kLanes) {
      for (Index q = 0; q < numbers_; q += kLanes) f(p, q);
    }
  }

  /// `levels`: for each tile (h, q, p). Returns the least of the next costs.
  Number advance(const Number* levels, Number target, const Number* costs, Number* next) const {
    const v128_t targets = Costs::splat(target);
    v128_t least = Costs::splat(Costs::kUnreachable);
    forTiles([&](Index p, Index q) {
      v128_t best[kLanes];
      HEED_UNROLL
      for (int i = 0; i < kLanes; ++i) best[i] = Costs::splat(Costs::kUnreachable);
      const Number* own = costs + p;
#pragma clang loop unroll(disable)
      for (Index h = 0; h < numbers_; ++h, own += prefixes_, levels += kLanes * kLanes) {
        const v128_t cost = simd::load(own);
        HEED_UNROLL
        for (int i = 0; i < kLanes; ++i) {
          const v128_t level = simd::load(levels + i * kLanes);
          best[i] = Costs::minimum(best[i], Costs::withError(cost, targets, level));
        }
      }
      HEED_UNROLL
      for (int i = 0; i < kLanes; ++i) least = Costs::minimum(least, best[i]);
      Costs::transpose(best);
      HEED_UNROLL
      for (int i = 0; i < kLanes; ++i) simd::store(next + (p + i) * numbers_ + q, best[i]);
    });
    Number lanes[kLanes];
    simd::store(lanes, least);
    return *std::min_element(lanes, lanes + kLanes);
  }

  /// The number h with the minimum cost among those that lead to a memory; the first one of equal costs.
  Index oldest(const Weight& weight, const Number* costs, Index memory) const {
    const v128_t targets = Costs::splat(Costs::scaled(weight.target));
    Index best = 0;
    Number least = Costs::kUnreachable;
    for (Index h = 0; h < numbers_; ++h) {
      const Number level = Costs::scaled(weight.counts ? trellisLevel(h * memories_ + memory) : 0);
      const v128_t own = Costs::splat(costs[h * prefixes_ + memory / numbers_]);
      Number cost[kLanes];
      simd::store(
          cost, Costs::minimum(Costs::withError(own, targets, Costs::splat(level)), Costs::splat(Costs::kUnreachable)));
      if (!(cost[0] < least)) continue;
      best = h;
      least = cost[0];
    }
    return best;
  }

  Index numbers_, memories_, prefixes_;  // Q, M and P
};

}  // namespace

void trellisSearch(int bits, Index length, const float* targets, const float* steps, uint16_t* states, Arena& arena) {
  requireRange("bits", bits, 2, 4);
  requireAtLeast("length", length, 0);
  if (length == 0) return;
  // A tile of costs in 16 bits has more memories than there are numbers of 2 bits.
  if (bits > 2 && Search<IntegerCosts>(bits).run(length, targets, steps, states, arena)) return;
  (void)Search<FloatCosts>(bits).run(length, targets, steps, states, arena);
}

}  // namespace heed
