/// L = mean (x - y)^2 over all n elements; dx = 2 (x - y) / n, dy = -dx. With weights, L = sum w (x - y)^2 / sum w.
#include "core/check.h"
#include "train/losses/elementwise_loss.h"

namespace heed::train::losses {

Variable mse(Graph& graph, const Variable& input, const Variable& target, Factors weights) {
  if (!weights.values.empty()) {
    return elementwiseLoss(graph, {input, target}, {"input", "target"}, std::move(weights),
                           [](Index, const double* values) -> LossEntry {
                             const double difference = values[0] - values[1];
                             return {difference * difference, {2 * difference, -2 * difference}};
                           });
  }
  requireShape("target", target.value(), input.rows(), input.cols());
  auto difference = std::make_shared<Matrix>(input.rows(), input.cols());
  const Index count = sizeOf(*difference);
  transform<4>(
      count, difference->data(), [](const auto& a, const auto& b) { return a - b; }, input.shared()->data(),
      target.shared()->data());
  const double sum = sumInDouble(count, [](const auto& a) { return a * a; }, difference->data());
  return graph.record(scalarOf(sum / static_cast<double>(count)), {input, target}, false,
                      [difference, x = input.node(), y = target.node()](Matrix& gradient, Backward& pass) {
                        const double factor = 2 * seedOf(gradient) / static_cast<double>(sizeOf(*difference));
                        const auto add = [&](const std::shared_ptr<Node>& node, double sign) {
                          pass.add(node, [&](MatrixView out, const ConstMatrixView* residual) {
                            write(out, residual, static_cast<float>(sign * factor) * difference->values());
                          });
                        };
                        add(x, 1);
                        add(y, -1);
                      });
}

Variable mseOf(Graph& graph, const Arguments& given) {
  return mse(graph, given.variable("input"), given.variableLike("target", "input"),
             given.entryFactors("weights", given.shape("input")));
}

}  // namespace heed::train::losses
