/// L = mean of l over all elements; with weights, L = sum w l / sum w. With the exposure e, which is 1 unless given:
///
///   l = e exp(x) - y (x + log e)   dl/dx = e exp(x) - y         dl/dy = -x - log e         if x is a logarithm
///   l = e x - y log(e x + eps)     dl/dx = e - e y / (e x + eps)   dl/dy = -log(e x + eps)
///
/// `full` adds Stirling's approximation of log(y!) where y > 1: y log y - y + log(2 pi y) / 2, whose derivative is
/// log y + 1 / (2 y).
#include <numbers>
#include <utility>

#include "core/check.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

double stirling(double y) {
  if (!(y > 1)) return 0;
  return y * elementary::log(y) - y + elementary::log(2 * std::numbers::pi * y) / 2;
}

double stirlingSlope(double y) { return y > 1 ? elementary::log(y) + 1 / (2 * y) : 0; }

}  // namespace

Variable poisson(Graph& graph, const Arguments& given) {
  requireEps(given.number("eps"));
  const auto eps = static_cast<double>(given.number("eps"));
  const Factors exposure = readExposure(given);
  const bool log_input = given.flag("logInput"), full = given.flag("full");
  const auto halves = log_input ? halfExponentials(*given.variable("input").shared()) : std::vector<float>();
  LossFormula formula = [=](Index i, const double* values) {
    const double x = values[0], y = values[1], e = exposure.at(i);
    LossEntry entry;
    if (log_input) {
      const auto half = static_cast<double>(halves[static_cast<size_t>(i)]);
      const double mean = e * half * half, log_mean = exposure.values.empty() ? x : x + elementary::log(e);
      entry = {mean - y * log_mean, {mean - y, -log_mean}};
    } else {
      const double log_mean = elementary::log(e * x + eps);
      entry = {e * x - y * log_mean, {e - e * y / (e * x + eps), -log_mean}};
    }
    if (full) {
      entry.value += stirling(y);
      entry.slopes[1] += stirlingSlope(y);
    }
    return entry;
  };
  return elementwiseLoss(graph, given, {"input", "target"}, std::move(formula));
}

}  // namespace heed::train::losses
