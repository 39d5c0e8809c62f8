/// L = sum_t l_t / sum_t w_{y_t} over the rows t whose label y_t is not ignored, with the log-probabilities
/// log p_k = x_k - log(sum_c e^{x_c}) and the smoothing s:
///
///   l = -(1 - s) w_y log p_y - s / C sum_k w_k log p_k
///
/// With weights v_t of the rows, L = sum_t v_t l_t / sum_t v_t w_{y_t}.
///
/// Backward: dl/dx_k = ((1 - s) w_y + s / C sum_c w_c) p_k - s / C w_k - (1 - s) w_y [k = y].
#include <algorithm>
#include <string>

#include "core/check.h"
#include "ops/softmax.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

struct Formula {
  std::vector<int32_t> labels;
  Index classes, ignore_index;
  double smoothing;
  Factors class_weights, weights;  // w, v
  double weight_sum = 0;           // sum_c w_c
  double total = 0;                // sum_t v_t w_{y_t}

  bool ignores(size_t t) const { return labels[t] == ignore_index; }
};

Formula readFormula(const Arguments& given, Index classes) {
  const Shape shape = given.leading("logits", "[..., C]");
  const float smoothing = given.number("labelSmoothing");
  requireRate("labelSmoothing", smoothing);
  Formula formula{.labels = given.indices("labels", shape),
                  .classes = classes,
                  .ignore_index = given.index("ignoreIndex"),
                  .smoothing = static_cast<double>(smoothing),
                  .class_weights = classFactors(given, "classWeights", classes),
                  .weights = readWeights(given, shape)};
  for (size_t t = 0; t < formula.labels.size(); ++t) {
    const int32_t label = formula.labels[t];
    if (formula.ignores(t) || (label >= 0 && label < classes)) continue;
    throwInvalid(
        ErrorCode::kInvalidArgument, "labels",
        "labels from 0 to " + std::to_string(classes - 1) + ", or ignoreIndex, " + std::to_string(formula.ignore_index),
        std::to_string(label) + " at position " + std::to_string(t));
  }
  for (Index c = 0; c < classes; ++c) formula.weight_sum += formula.class_weights.at(c);
  return formula;
}

/// Replaces a row of logits by the probabilities p. Returns l.
double rowLoss(const Formula& formula, Index label, float* row) {
  const Index classes = formula.classes;
  const auto logits = heed::view(static_cast<const float*>(row), 1, classes);
  const auto highest = static_cast<double>(logits.maxCoeff());
  const auto logit = static_cast<double>(row[label]);
  const double s = formula.smoothing;
  double weighted = 0;  // sum_k w_k x_k
  for (Index k = 0; s > 0 && k < classes; ++k) weighted += formula.class_weights.at(k) * static_cast<double>(row[k]);
  const float sum = exponentials(row, classes);
  const v128_t inverse = simd::splat(1 / sum);
  transform<4>(classes, row, [inverse](const auto& e) { return e * inverse; }, row);
  const double log_sum = highest + elementary::log(static_cast<double>(sum));
  const double loss = (1 - s) * formula.class_weights.at(label) * (log_sum - logit);
  return s > 0 ? loss + s / static_cast<double>(classes) * (formula.weight_sum * log_sum - weighted) : loss;
}

/// The gradient of one row, times `factor`.
void rowGradient(const Formula& formula, Index label, const float* p, double factor, float* dx) {
  const double target = (1 - formula.smoothing) * formula.class_weights.at(label);
  const double spread = formula.smoothing / static_cast<double>(formula.classes);
  const v128_t slope = simd::splat(static_cast<float>(factor * (target + spread * formula.weight_sum)));
  transform<4>(formula.classes, dx, [slope](const auto& a) { return a * slope; }, p);
  for (Index k = 0; spread > 0 && k < formula.classes; ++k)
    dx[k] -= static_cast<float>(factor * spread * formula.class_weights.at(k));
  dx[label] -= static_cast<float>(factor * target);
}

}  // namespace

Variable crossEntropy(Graph& graph, const Arguments& given) {
  const Variable logits = given.variable("logits");
  Formula formula = readFormula(given, logits.cols());
  auto p = std::make_shared<Matrix>(logits.value());
  double sum = 0;
  for (size_t t = 0; t < formula.labels.size(); ++t) {
    if (formula.ignores(t)) continue;
    const Index label = formula.labels[t];
    const double v = formula.weights.at(static_cast<Index>(t));
    sum += v * rowLoss(formula, label, p->data() + static_cast<Index>(t) * formula.classes);
    formula.total += v * formula.class_weights.at(label);
  }
  if (!formula.weights.values.empty() && formula.total == 0) formula.total = 1;
  Matrix loss = scalarOf(sum / formula.total);
  return graph.record(std::move(loss), {logits}, false,
                      [formula = std::move(formula), p, node = logits.node()](Matrix& gradient, Backward& pass) {
                        const double factor = seedOf(gradient) / formula.total;
                        Matrix dx(p->rows(), p->cols());
                        for (size_t t = 0; t < formula.labels.size(); ++t) {
                          const Index at = static_cast<Index>(t) * formula.classes;
                          if (formula.ignores(t)) {
                            std::fill_n(dx.data() + at, formula.classes, 0.0f);
                          } else {
                            const double v = formula.weights.at(static_cast<Index>(t));
                            rowGradient(formula, formula.labels[t], p->data() + at, factor * v, dx.data() + at);
                          }
                        }
                        pass.give(node, std::move(dx));
                      });
}

}  // namespace heed::train::losses
