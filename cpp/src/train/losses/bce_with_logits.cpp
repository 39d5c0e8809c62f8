/// L = mean of w l over all elements, with the weight w of the class and its factor q on positive targets. With weights
/// v of the elements, L = sum v w l / sum v.
///
///   l = (1 - y) softplus(x) + q y softplus(-x), softplus(x) = log(1 + e^x)
///
/// that is, -(1 - y) log(1 - sigmoid(x)) - q y log(sigmoid(x)).
/// Backward: dl/dx = (1 - y) sigmoid(x) - q y sigmoid(-x), dl/dy = q softplus(-x) - softplus(x).
#include <algorithm>
#include <cmath>

#include "train/losses/loss.h"

namespace heed::train::losses {

Variable bceWithLogits(Graph& graph, const Arguments& given) {
  const Variable logits = given.variable("logits");
  const Index classes = logits.cols(), count = logits.shared()->size();
  const Factors weight = classFactors(given, "classWeights", classes),
                positive = classFactors(given, "posWeight", classes);
  std::vector<float> exponentials(static_cast<size_t>(count));  // e^-|x|, which does not overflow
  transform<2>(
      count, exponentials.data(), [](const auto& a) { return exp(minimum(a, a * simd::splat(-1))); },
      logits.shared()->data());
  return elementwiseLoss(
      graph, given, {"logits", "target"},
      [=, exponentials = std::move(exponentials)](Index i, const double* values) -> LossEntry {
        const double x = values[0], y = values[1], w = weight.at(i % classes), q = positive.at(i % classes);
        const auto e = static_cast<double>(exponentials[static_cast<size_t>(i)]);
        const double tail = elementary::log(1 + e), plus = std::max(x, 0.0) + tail, minus = std::max(-x, 0.0) + tail;
        const double low = e / (1 + e), high = 1 / (1 + e);  // sigmoid(-|x|), sigmoid(|x|)
        const double slope = (1 - y) * (x < 0 ? low : high) - q * y * (x < 0 ? high : low);
        return {w * ((1 - y) * plus + q * y * minus), {w * slope, w * (q * minus - plus)}};
      });
}

}  // namespace heed::train::losses
