/// L = mean of l over the rows, with c = a b / sqrt((a a + e) (b b + e)) and e = 1e-12:
///
///   l = 1 - c                  for the label 1
///   l = max(0, c - margin)     for the label -1
///
/// With weights w of the rows, L = sum w l / sum w.
///
/// Backward: dc/da = b / sqrt((a a + e) (b b + e)) - c a / (a a + e); dc/db is symmetric.
#include <cmath>
#include <string>

#include "core/check.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

/// The constant of PyTorch's cosine_embedding_loss.
constexpr double kEpsilon = 1e-12;

/// The cosine of two rows, and the squared norms (plus e) that its gradient needs.
struct Cosine {
  double value, length_a2, length_b2;
};

Cosine cosineOf(Index width, const float* a, const float* b) {
  const double aa = sumInDouble(width, kProduct, a, a) + kEpsilon, bb = sumInDouble(width, kProduct, b, b) + kEpsilon;
  return {sumInDouble(width, kProduct, a, b) / std::sqrt(aa * bb), aa, bb};
}

/// dl/dc.
double slopeOf(const Cosine& cosine, float label, float margin) {
  if (label > 0) return -1;
  return cosine.value >= static_cast<double>(margin) ? 1 : 0;
}

}  // namespace

Variable cosineEmbedding(Graph& graph, const Arguments& given) {
  const Variable a = given.variable("a"), b = given.variableLike("b", "a");
  const Shape shape = given.leading("a", "[..., E]");
  std::vector<float> labels = given.numbers("labels", shape);
  Factors weights = readWeights(given, shape);
  const float margin = given.number("margin");
  const Index rows = a.rows(), width = a.cols();
  double sum = 0;
  for (Index t = 0; t < rows; ++t) {
    const float label = labels[static_cast<size_t>(t)];
    if (label != 1 && label != -1) {
      throwInvalid(ErrorCode::kInvalidArgument, "labels", "labels of 1 or -1",
                   numberText(static_cast<double>(label)) + " at position " + std::to_string(t));
    }
    const double c = cosineOf(width, a.shared()->data() + t * width, b.shared()->data() + t * width).value;
    const double excess = c - static_cast<double>(margin);
    // Not std::max, so that NaN stays NaN.
    sum += weights.at(t) * (label > 0 ? 1 - c : (excess < 0 ? 0 : excess));
  }
  const double total = totalOf(weights, rows);
  return graph.record(
      scalarOf(sum / total), {a, b}, false,
      [x = a.shared(), y = b.shared(), dx = a.node(), dy = b.node(), labels = std::move(labels), margin,
       weights = std::move(weights), total](Matrix& gradient, Backward& pass) {
        const double factor = seedOf(gradient) / total;
        // Adds the gradient of `from`, whose squared norms are `squared_length`.
        const auto add = [&](const std::shared_ptr<Node>& node, const Matrix& from, const Matrix& other,
                             double Cosine::* squared_length) {
          MatrixView out = pass.gradient(node);
          for (Index t = 0; t < out.rows(); ++t) {
            const Cosine cosine = cosineOf(out.cols(), x->data() + t * out.cols(), y->data() + t * out.cols());
            const double slope = factor * weights.at(t) * slopeOf(cosine, labels[static_cast<size_t>(t)], margin);
            const auto along = static_cast<float>(slope / std::sqrt(cosine.length_a2 * cosine.length_b2));
            const auto back = static_cast<float>(slope * cosine.value / cosine.*squared_length);
            out.row(t) += along * other.values().row(t) - back * from.values().row(t);
          }
        };
        add(dx, *x, *y, &Cosine::length_a2);
        add(dy, *y, *x, &Cosine::length_b2);
      });
}

}  // namespace heed::train::losses
