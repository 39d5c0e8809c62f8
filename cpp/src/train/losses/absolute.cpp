/// Losses of the difference d = x - y that grow linearly: the mean of l over all elements, or with weights
/// sum w l / sum w. dl/dy = -dl/dx.
///
///   mae       l = |d|                       dl/dx = sign(d), 0 for d = 0
///   huber     l = d^2 / 2                   dl/dx = d                  where |d| <= delta
///             l = delta (|d| - delta / 2)   dl/dx = delta sign(d)      elsewhere
///   quantile  l = (1 - q) d                 dl/dx = 1 - q              where d > 0
///             l = -q d                      dl/dx = -q, 0 for d = 0    elsewhere
#include <cmath>

#include "core/check.h"
#include "train/losses/elementwise_loss.h"

namespace heed::train::losses {
namespace {

/// The loss with the given value and slope at d.
template <class F>
Variable ofDifference(Graph& graph, const Variable& input, const Variable& target, Factors weights, const F& at) {
  return elementwiseLoss(graph, {input, target}, {"input", "target"}, std::move(weights),
                         [at](Index, const double* values) -> LossEntry {
                           const auto [value, slope] = at(values[0] - values[1]);
                           return {value, {slope, -slope}};
                         });
}

struct Point {
  double value, slope;
};

double signOf(double d) { return d > 0 ? 1 : d < 0 ? -1 : d; }

}  // namespace

Variable mae(Graph& graph, const Variable& input, const Variable& target, Factors weights) {
  return ofDifference(graph, input, target, std::move(weights), [](double d) { return Point{std::abs(d), signOf(d)}; });
}

Variable huber(Graph& graph, const Variable& input, const Variable& target, float delta, Factors weights) {
  if (!(delta > 0))
    throwInvalid(ErrorCode::kInvalidArgument, "delta", "a positive number", numberText(static_cast<double>(delta)));
  const auto limit = static_cast<double>(delta);
  return ofDifference(graph, input, target, std::move(weights), [limit](double d) {
    return std::abs(d) > limit ? Point{limit * (std::abs(d) - limit / 2), limit * signOf(d)} : Point{d * d / 2, d};
  });
}

Variable quantile(Graph& graph, const Variable& input, const Variable& target, float quantile, Factors weights) {
  if (!(quantile > 0 && quantile < 1))
    throwInvalid(ErrorCode::kInvalidArgument, "quantile", "a number above 0 and below 1",
                 numberText(static_cast<double>(quantile)));
  const auto q = static_cast<double>(quantile);
  return ofDifference(graph, input, target, std::move(weights), [q](double d) {
    const double slope = d > 0 ? 1 - q : d < 0 ? -q : 0;
    return Point{d > 0 ? (1 - q) * d : -q * d, slope};
  });
}

Variable maeOf(Graph& graph, const Arguments& given) {
  return mae(graph, given.variable("input"), given.variableLike("target", "input"),
             given.entryFactors("weights", given.shape("input")));
}

Variable huberOf(Graph& graph, const Arguments& given) {
  return huber(graph, given.variable("input"), given.variableLike("target", "input"), given.number("delta"),
               given.entryFactors("weights", given.shape("input")));
}

Variable quantileOf(Graph& graph, const Arguments& given) {
  return quantile(graph, given.variable("input"), given.variableLike("target", "input"), given.number("quantile"),
                  given.entryFactors("weights", given.shape("input")));
}

}  // namespace heed::train::losses
