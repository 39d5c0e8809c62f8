/// Losses of the difference d = x - y: the mean of l over all elements, or with weights sum w l / sum w. dl/dy =
/// -dl/dx.
///
///   mse       l = d^2                       dl/dx = 2 d
///   mae       l = |d|                       dl/dx = sign(d), 0 for d = 0
///   huber     l = d^2 / 2                   dl/dx = d                  where |d| <= delta
///             l = delta (|d| - delta / 2)   dl/dx = delta sign(d)      elsewhere
///   quantile  l = (1 - q) d                 dl/dx = 1 - q              where d > 0
///             l = -q d                      dl/dx = -q, 0 for d = 0    elsewhere
#include <cmath>

#include "core/check.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

struct Point {
  double value, slope;
};

/// The loss with the given value and slope at d.
template <class F>
Variable ofDifference(Graph& graph, const Arguments& given, const F& at) {
  return elementwiseLoss(graph, given, {"input", "target"}, [at](Index, const double* values) -> LossEntry {
    const Point point = at(values[0] - values[1]);
    return {point.value, {point.slope, -point.slope}};
  });
}

double signOf(double d) { return d > 0 ? 1 : d < 0 ? -1 : d; }

}  // namespace

Variable mse(Graph& graph, const Arguments& given) {
  return ofDifference(graph, given, [](double d) { return Point{d * d, 2 * d}; });
}

Variable mae(Graph& graph, const Arguments& given) {
  return ofDifference(graph, given, [](double d) { return Point{std::abs(d), signOf(d)}; });
}

Variable huber(Graph& graph, const Arguments& given) {
  const auto limit = static_cast<double>(given.number("delta"));
  if (!(limit > 0)) throwInvalid(ErrorCode::kInvalidArgument, "delta", "a positive number", numberText(limit));
  return ofDifference(graph, given, [limit](double d) {
    return std::abs(d) > limit ? Point{limit * (std::abs(d) - limit / 2), limit * signOf(d)} : Point{d * d / 2, d};
  });
}

Variable quantile(Graph& graph, const Arguments& given) {
  const auto q = static_cast<double>(given.number("quantile"));
  if (!(q > 0 && q < 1))
    throwInvalid(ErrorCode::kInvalidArgument, "quantile", "a number above 0 and below 1", numberText(q));
  return ofDifference(graph, given, [q](double d) {
    const double slope = d > 0 ? 1 - q : d < 0 ? -q : 0;
    return Point{d > 0 ? (1 - q) * d : -q * d, slope};
  });
}

}  // namespace heed::train::losses
