#include "train/losses/elementwise_loss.h"

#include "core/check.h"

namespace heed::train {
namespace {

LossEntry entryAt(const LossFormula& formula, const std::vector<std::shared_ptr<const Matrix>>& values, Index i) {
  double at[3] = {};
  for (size_t k = 0; k < values.size(); ++k) at[k] = static_cast<double>(values[k]->data()[i]);
  return formula(i, at);
}

}  // namespace

Variable elementwiseLoss(Graph& graph, const std::vector<Variable>& variables, const std::vector<const char*>& names,
                         losses::Factors weights, LossFormula formula) {
  const Index rows = variables[0].rows(), columns = variables[0].cols(), count = rows * columns;
  std::vector<std::shared_ptr<const Matrix>> values;
  std::vector<std::shared_ptr<Node>> nodes;
  for (size_t k = 0; k < variables.size(); ++k) {
    requireShape(names[k], variables[k].value(), rows, columns);
    values.push_back(variables[k].shared());
    nodes.push_back(variables[k].node());
  }
  requireWeights(weights);
  const double total = totalOf(weights, count);
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += weights.at(i) * entryAt(formula, values, i).value;
  return graph.record(scalarOf(sum / total), variables, false,
                      [values, nodes, weights = std::move(weights), formula = std::move(formula), total, rows, columns](
                          Matrix& gradient, Backward& pass) {
                        const double factor = seedOf(gradient) / total;
                        std::vector<Matrix> slopes;
                        slopes.reserve(nodes.size());
                        for (const auto& node : nodes) slopes.push_back(node ? Matrix(rows, columns) : Matrix());
                        for (Index i = 0; i < rows * columns; ++i) {
                          const LossEntry entry = entryAt(formula, values, i);
                          for (size_t k = 0; k < nodes.size(); ++k) {
                            if (nodes[k])
                              slopes[k].data()[i] = static_cast<float>(factor * weights.at(i) * entry.slopes[k]);
                          }
                        }
                        for (size_t k = 0; k < nodes.size(); ++k)
                          if (nodes[k]) pass.give(nodes[k], std::move(slopes[k]));
                      });
}

std::vector<float> halfExponentials(const Matrix& x, float sign) {
  std::vector<float> out(static_cast<size_t>(sizeOf(x)));
  const v128_t half = simd::splat(sign / 2), most = simd::splat(88.3f);
  transform<2>(sizeOf(x), out.data(), [=](const auto& a) { return exp(minimum(a * half, most)); }, x.data());
  return out;
}

}  // namespace heed::train
