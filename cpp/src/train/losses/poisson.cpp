/// L = mean of l over all elements:
///
///   l = e^x - y x              dl/dx = e^x - y             dl/dy = -x              if x is the logarithm of the mean
///   l = x - y log(x + eps)     dl/dx = 1 - y / (x + eps)   dl/dy = -log(x + eps)   if x is the mean
///
/// `full` adds Stirling's approximation of log(y!) where y > 1: y log y - y + log(2 pi y) / 2, whose derivative is
/// log y + 1 / (2 y).
#include <numbers>

#include "core/check.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

double stirling(double y) {
  if (!(y > 1)) return 0;
  return y * elementary::log(y) - y + elementary::log(2 * std::numbers::pi * y) / 2;
}

double stirlingSlope(double y) { return y > 1 ? elementary::log(y) + 1 / (2 * y) : 0; }

/// out = e^(x / 2). Its square overflows where e^x does, whereas simd::exp(x) is limited to arguments below 88.3.
void halfExponentials(Index count, const float* x, float* out) {
  transform<2>(count, out, [](const auto& a) { return exp(minimum(a * simd::splat(0.5f), simd::splat(88.3f))); }, x);
}

}  // namespace

Variable poisson(Graph& graph, const Variable& input, const Variable& target, const PoissonOptions& options) {
  requireShape("target", target.value(), input.rows(), input.cols());
  requireEps(options.eps);
  const Index count = input.rows() * input.cols();
  auto exponential = std::make_shared<Matrix>(options.log_input ? input.rows() : 0, input.cols());
  if (options.log_input) halfExponentials(count, input.shared()->data(), exponential->data());
  double sum = 0;
  for (Index i = 0; i < count; ++i) {
    const auto x = static_cast<double>(input.shared()->data()[i]), y = static_cast<double>(target.shared()->data()[i]);
    if (options.log_input) {
      const auto half = static_cast<double>(exponential->data()[i]);
      sum += half * half - y * x;
    } else {
      sum += x - y * elementary::log(x + static_cast<double>(options.eps));
    }
    if (options.full) sum += stirling(y);
  }
  return graph.record(scalarOf(sum / static_cast<double>(count)), {input, target}, false,
                      [options, exponential, x = input.shared(), y = target.shared(), dx = input.node(),
                       dy = target.node(), count](Matrix& gradient, Backward& pass) {
                        const double factor = seedOf(gradient) / static_cast<double>(count);
                        const auto give = [&](const std::shared_ptr<Node>& node, const auto& derivative) {
                          if (!node) return;
                          Matrix out(x->rows(), x->cols());
                          for (Index i = 0; i < count; ++i) {
                            out.data()[i] = static_cast<float>(factor * derivative(i, static_cast<double>(x->data()[i]),
                                                                                   static_cast<double>(y->data()[i])));
                          }
                          pass.give(node, std::move(out));
                        };
                        const auto eps = static_cast<double>(options.eps);
                        if (options.log_input) {
                          give(dx, [&](Index i, double, double label) {
                            const auto half = static_cast<double>(exponential->data()[i]);
                            return half * half - label;
                          });
                        } else {
                          give(dx, [&](Index, double mean, double label) { return 1 - label / (mean + eps); });
                        }
                        give(dy, [&](Index, double mean, double label) {
                          return (options.full ? stirlingSlope(label) : 0) -
                                 (options.log_input ? mean : elementary::log(mean + eps));
                        });
                      });
}

Variable poissonOf(Graph& graph, const Arguments& given) {
  return poisson(graph, given.variable("input"), given.variableLike("target", "input"),
                 {.log_input = given.flag("logInput"), .full = given.flag("full"), .eps = given.number("eps")});
}

}  // namespace heed::train::losses
