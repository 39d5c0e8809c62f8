/// L = mean of w l over all elements, with the weight w of the class and its factor q on positive targets. With weights
/// v of the elements, L = sum v w l / sum v.
///
///   l = (1 - y) softplus(x) + q y softplus(-x), softplus(x) = log(1 + e^x)
///
/// that is, -(1 - y) log(1 - sigmoid(x)) - q y log(sigmoid(x)).
/// Backward: dl/dx = (1 - y) sigmoid(x) - q y sigmoid(-x), dl/dy = q softplus(-x) - softplus(x).
#include "core/check.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

void requirePerClass(const char* argument, const std::vector<float>& values, Index classes) {
  if (!values.empty()) requireShape(argument, Shape{static_cast<Index>(values.size())}, Shape{classes});
}

/// One factor per class, as a row: `values`, or ones.
std::vector<float> rowOf(const std::vector<float>& values, Index classes) {
  return values.empty() ? std::vector<float>(static_cast<size_t>(classes), 1) : values;
}

/// The class factors w and q, and the weights v of the elements.
struct BceFactors {
  std::vector<float> w, q;
  Factors v;
};

}  // namespace

Variable bceWithLogits(Graph& graph, const Variable& logits, const Variable& target, const BceOptions& options) {
  const Index rows = logits.rows(), classes = logits.cols();
  requireShape("target", target.value(), rows, classes);
  requirePerClass("weight", options.weight, classes);
  requirePerClass("posWeight", options.pos_weight, classes);
  requireWeights(options.weights);
  BceFactors factors{rowOf(options.weight, classes), rowOf(options.pos_weight, classes), options.weights};
  // Calls f(element, class, softplus(x), softplus(-x)) for every element.
  const auto for_each = [](const Matrix& x, const auto& f) {
    Matrix exponential(1, x.cols());
    for (Index t = 0; t < x.rows(); ++t) {
      const float* row = x.data() + t * x.cols();
      exponentialsOfNegatives(x.cols(), row, exponential.data());
      for (Index c = 0; c < x.cols(); ++c) {
        const auto logit = static_cast<double>(row[c]), e = static_cast<double>(exponential.data()[c]);
        f(t * x.cols() + c, static_cast<size_t>(c), softplus(logit, e), softplus(-logit, e));
      }
    }
  };
  double sum = 0;
  for_each(*logits.shared(), [&](Index i, size_t c, double plus, double minus) {
    const auto y = static_cast<double>(target.shared()->data()[i]);
    sum += factors.v.at(i) * static_cast<double>(factors.w[c]) *
           ((1 - y) * plus + static_cast<double>(factors.q[c]) * y * minus);
  });
  const double total = totalOf(options.weights, rows * classes);
  return graph.record(scalarOf(sum / total), {logits, target}, false,
                      [x = logits.shared(), y = target.shared(), dx = logits.node(), dy = target.node(),
                       factors = std::move(factors), total, for_each](Matrix& gradient, Backward& pass) {
                        const double factor = seedOf(gradient) / total;
                        const Index columns = x->cols();
                        if (dx) {
                          Matrix out(x->rows(), columns);
                          const v128_t scale = simd::splat(static_cast<float>(factor)), one = simd::splat(1);
                          for (Index t = 0; t < out.rows(); ++t) {
                            transform<2>(
                                columns, out.data() + t * columns,
                                [=](const auto& logit, const auto& label, const auto& w, const auto& q) {
                                  const auto positive = sigmoid(logit), negative = sigmoid(negated(logit));
                                  return w * scale * ((negated(label) + one) * positive - q * label * negative);
                                },
                                x->data() + t * columns, y->data() + t * columns, factors.w.data(), factors.q.data());
                          }
                          for (Index i = 0; !factors.v.values.empty() && i < sizeOf(out); ++i)
                            out.data()[i] *= factors.v.values[static_cast<size_t>(i)];
                          pass.give(dx, std::move(out));
                        }
                        if (dy) {
                          Matrix out(x->rows(), columns);
                          for_each(*x, [&](Index i, size_t c, double plus, double minus) {
                            out.data()[i] =
                                static_cast<float>(factor * factors.v.at(i) * static_cast<double>(factors.w[c]) *
                                                   (static_cast<double>(factors.q[c]) * minus - plus));
                          });
                          pass.give(dy, std::move(out));
                        }
                      });
}

Variable bceWithLogitsOf(Graph& graph, const Arguments& given) {
  return bceWithLogits(graph, given.variable("logits"), given.variableLike("target", "logits"),
                       {.weight = given.factors("weight"),
                        .pos_weight = given.factors("posWeight"),
                        .weights = given.entryFactors("weights", given.shape("logits"))});
}

}  // namespace heed::train::losses
