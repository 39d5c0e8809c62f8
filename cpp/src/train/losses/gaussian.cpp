/// L = mean of l over all elements; with weights, L = sum w l / sum w. With v = max(variance, eps):
///
///   l = (log v + (x - y)^2 / v) / 2      dl/dx = (x - y) / v      dl/dy = -dl/dx      dl/dv = (1 / v - (x - y)^2 /
///   v^2) / 2
///
/// As in PyTorch, the variance receives dl/dv also where eps replaces it. `full` adds log(2 pi) / 2.
#include <numbers>
#include <string>

#include "core/check.h"
#include "train/losses/elementwise_loss.h"

namespace heed::train::losses {

Variable gaussian(Graph& graph, const Variable& mean, const Variable& target, const Variable& variance,
                  const GaussianOptions& options) {
  requireEps(options.eps);
  for (Index i = 0; i < sizeOf(*variance.shared()); ++i) {
    const float given = variance.shared()->data()[i];
    if (given < 0)
      throwInvalid(ErrorCode::kInvalidArgument, "variance", "numbers >= 0",
                   numberText(static_cast<double>(given)) + " for entry " + std::to_string(i));
  }
  const auto eps = static_cast<double>(options.eps);
  const double constant = options.full ? elementary::log(2 * std::numbers::pi) / 2 : 0;
  return elementwiseLoss(graph, {mean, target, variance}, {"mean", "target", "variance"}, options.weights,
                         [=](Index, const double* values) -> LossEntry {
                           const double difference = values[0] - values[1];
                           const double v = values[2] < eps ? eps : values[2];  // NaN stays NaN
                           const double ratio = difference / v;
                           return {(elementary::log(v) + difference * ratio) / 2 + constant,
                                   {ratio, -ratio, (1 / v - ratio * ratio) / 2}};
                         });
}

Variable gaussianOf(Graph& graph, const Arguments& given) {
  return gaussian(graph, given.variable("mean"), given.variableLike("target", "mean"),
                  given.variableLike("variance", "mean"),
                  {.full = given.flag("full"),
                   .eps = given.number("eps"),
                   .weights = given.entryFactors("weights", given.shape("mean"))});
}

}  // namespace heed::train::losses
