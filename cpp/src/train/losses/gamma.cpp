/// L = mean of l over all elements; with weights, L = sum w l / sum w. With the exposure e, which is 1 unless given:
///
///   l = x + log e + y / e exp(-x)     dl/dx = 1 - y / e exp(-x)       dl/dy = exp(-x) / e   if x is a logarithm
///   l = log(e x) + y / (e x)          dl/dx = 1 / x - y / (e x^2)     dl/dy = 1 / (e x)
#include "train/losses/loss.h"

namespace heed::train::losses {

Variable gamma(Graph& graph, const Arguments& given) {
  const Factors exposure = readExposure(given);
  const bool log_input = given.flag("logInput");
  const auto halves = log_input ? halfExponentials(*given.variable("input").shared(), -1) : std::vector<float>();
  return elementwiseLoss(graph, given, {"input", "target"}, [=](Index i, const double* values) -> LossEntry {
    const double x = values[0], y = values[1], e = exposure.at(i);
    if (!log_input) {
      const double mean = e * x;
      return {elementary::log(mean) + y / mean, {1 / x - y / (mean * x), 1 / mean}};
    }
    const auto half = static_cast<double>(halves[static_cast<size_t>(i)]);
    const double inverse = half * half / e;  // of the mean
    return {x + elementary::log(e) + y * inverse, {1 - y * inverse, inverse}};
  });
}

}  // namespace heed::train::losses
