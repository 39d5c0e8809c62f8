#include "train/losses/loss.h"

#include <cmath>
#include <string>

#include "core/check.h"

namespace heed::train {
namespace {

losses::Factors readFactors(const losses::Arguments& given, const char* name, const Shape& shape, const char* expected,
                            bool (*is_legal)(float)) {
  losses::Factors factors = given.entryFactors(name, shape);
  for (size_t i = 0; i < factors.values.size(); ++i) {
    const float value = factors.values[i];
    if (!(std::isfinite(value) && is_legal(value)))
      throwInvalid(ErrorCode::kInvalidArgument, name, expected,
                   numberText(static_cast<double>(value)) + " for entry " + std::to_string(i));
  }
  return factors;
}

LossEntry entryAt(const LossFormula& formula, const std::vector<std::shared_ptr<const Matrix>>& values, Index i) {
  double at[3] = {};
  for (size_t k = 0; k < values.size(); ++k) at[k] = static_cast<double>(values[k]->data()[i]);
  return formula(i, at);
}

}  // namespace

losses::Factors readWeights(const losses::Arguments& given, const Shape& shape) {
  return readFactors(given, "exampleWeights", shape, "finite numbers >= 0", [](float value) { return value >= 0; });
}

losses::Factors readExposure(const losses::Arguments& given) {
  return readFactors(given, "exposure", given.shape("input"), "finite numbers > 0",
                     [](float value) { return value > 0; });
}

losses::Factors classFactors(const losses::Arguments& given, const char* name, Index classes) {
  losses::Factors factors{given.factors(name)};
  if (const auto count = static_cast<Index>(factors.values.size()); count > 0)
    requireShape(name, Shape{count}, Shape{classes});
  return factors;
}

double totalOf(const losses::Factors& weights, Index count) {
  if (weights.values.empty()) return static_cast<double>(count);
  double total = 0;
  for (Index i = 0; i < count; ++i) total += weights.at(i);
  return total > 0 ? total : 1;
}

Variable elementwiseLoss(Graph& graph, const losses::Arguments& given, std::initializer_list<const char*> names,
                         LossFormula formula) {
  const char* first = *names.begin();
  std::vector<Variable> variables;
  std::vector<std::shared_ptr<const Matrix>> values;
  std::vector<std::shared_ptr<Node>> nodes;
  for (const char* name : names) {
    variables.push_back(given.variableLike(name, first));
    values.push_back(variables.back().shared());
    nodes.push_back(variables.back().node());
  }
  const Index rows = variables[0].rows(), columns = variables[0].cols(), count = rows * columns;
  losses::Factors weights = readWeights(given, given.shape(first));
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
  std::vector<float> out(static_cast<size_t>(x.size()));
  const v128_t half = simd::splat(sign / 2), most = simd::splat(88.3f);
  transform<2>(x.size(), out.data(), [=](const auto& a) { return exp(minimum(a * half, most)); }, x.data());
  return out;
}

}  // namespace heed::train
