/// L = mean of l over all elements; with weights, L = sum w l / sum w. With v = max(variance, eps):
///
///   l = (log v + (x - y)^2 / v) / 2      dl/dx = (x - y) / v      dl/dy = -dl/dx      dl/dv = (1 / v - (x - y)^2 /
///   v^2) / 2
///
/// As in PyTorch, the variance receives dl/dv also where eps replaces it. `full` adds log(2 pi) / 2.
#include <numbers>
#include <string>

#include "core/check.h"
#include "train/losses/loss.h"

namespace heed::train::losses {

Variable gaussian(Graph& graph, const Arguments& given) {
  const float given_eps = given.number("eps");
  requireEps(given_eps);
  const auto eps = static_cast<double>(given_eps);
  const double constant = given.flag("full") ? elementary::log(2 * std::numbers::pi) / 2 : 0;
  return elementwiseLoss(graph, given, {"mean", "target", "variance"}, [=](Index i, const double* values) -> LossEntry {
    if (values[2] < 0) {
      throwInvalid(ErrorCode::kInvalidArgument, "variance", "numbers >= 0",
                   numberText(values[2]) + " for entry " + std::to_string(i));
    }
    const double difference = values[0] - values[1];
    const double v = values[2] < eps ? eps : values[2];  // NaN stays NaN
    const double ratio = difference / v;
    return {(elementary::log(v) + difference * ratio) / 2 + constant, {ratio, -ratio, (1 / v - ratio * ratio) / 2}};
  });
}

}  // namespace heed::train::losses
