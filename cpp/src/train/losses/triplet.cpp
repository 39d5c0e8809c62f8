/// L = mean of max(0, d(a, p) - d(a, n) + margin) over the rows, where d(x, y) = |x - y + 1e-6|, as in PyTorch. With
/// weights, L = sum w l / sum w.
///
/// Backward, where the maximum is not 0, with the unit vectors u = (x - y + 1e-6) / d(x, y): da = u_ap - u_an,
/// dp = -u_ap, dn = u_an. u = 0 where d = 0.
#include <cmath>

#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

constexpr float kDistanceEpsilon = 1e-6f;

double distance(Index width, const float* x, const float* y) {
  return std::sqrt(sumInDouble(
      width,
      [](const auto& a, const auto& b) {
        const auto difference = a - b + simd::splat(kDistanceEpsilon);
        return difference * difference;
      },
      x, y));
}

/// d(a, p) and d(a, n) for one row.
struct Distances {
  double positive, negative;
};

}  // namespace

Variable triplet(Graph& graph, const Arguments& given) {
  const Variable anchor = given.variable("anchor"), positive = given.variableLike("positive", "anchor"),
                 negative = given.variableLike("negative", "anchor");
  Factors weights = readWeights(given, given.leading("anchor", "[..., E]"));
  const float margin = given.number("margin");
  const Index rows = anchor.rows(), width = anchor.cols();
  std::vector<Distances> distances;
  double sum = 0;
  for (Index t = 0; t < rows; ++t) {
    const float* a = anchor.shared()->data() + t * width;
    const Distances row{distance(width, a, positive.shared()->data() + t * width),
                        distance(width, a, negative.shared()->data() + t * width)};
    const double excess = row.positive - row.negative + static_cast<double>(margin);
    // Not std::max, so that NaN stays NaN.
    sum += weights.at(t) * (excess < 0 ? 0 : excess);
    distances.push_back(row);
  }
  const double total = totalOf(weights, rows);
  return graph.record(scalarOf(sum / total), {anchor, positive, negative}, false,
                      [a = anchor.shared(), p = positive.shared(), n = negative.shared(), da = anchor.node(),
                       dp = positive.node(), dn = negative.node(), distances = std::move(distances), margin,
                       weights = std::move(weights), total](Matrix& gradient, Backward& pass) {
                        const double factor = seedOf(gradient) / total;
                        // Adds sign * u for the pair of the anchor and `other`.
                        const auto add = [&](const std::shared_ptr<Node>& node, const Matrix& other,
                                             double Distances::* length, double sign) {
                          MatrixView out = pass.gradient(node);
                          for (Index t = 0; t < out.rows(); ++t) {
                            const Distances& row = distances[static_cast<size_t>(t)];
                            if (row.positive - row.negative + static_cast<double>(margin) < 0 || row.*length == 0)
                              continue;
                            const auto scale = static_cast<float>(sign * factor * weights.at(t) / row.*length);
                            out.row(t).array() +=
                                scale * (a->values().row(t) - other.values().row(t)).array() + scale * kDistanceEpsilon;
                          }
                        };
                        add(da, *p, &Distances::positive, 1);
                        add(da, *n, &Distances::negative, -1);
                        add(dp, *p, &Distances::positive, -1);
                        add(dn, *n, &Distances::negative, 1);
                      });
}

}  // namespace heed::train::losses
