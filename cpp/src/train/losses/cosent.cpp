/// With s_i = scale cos(a_i, b_i): L = log(1 + sum of e^{s_i - s_j} over the pairs (i, j) with label_i < label_j).
///
/// Backward, with p_ij = e^{s_i - s_j - L}: ds_i = sum of p_ij - sum of p_ji over such pairs, du_i = scale ds_i v_i for
/// the unit vectors u_i = a_i / |a_i| and v_i = b_i / |b_i|, which normalize() records (ops/pooling_backward.cpp).
#include <cmath>
#include <string>

#include "core/check.h"
#include "heed/train/ops.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

/// e^x. std::exp would add 3 KB to the WebAssembly module.
double power(double x) { return elementary::pow(2.718281828459045, x); }

}  // namespace

Variable coSENT(Graph& graph, const Arguments& given) {
  const Variable u = normalize(graph, given.variable("a")), v = normalize(graph, given.variableLike("b", "a"));
  const std::vector<float> labels = given.numbers("labels", given.leading("a", "[..., E]"));
  const auto scale = static_cast<double>(given.number("scale"));
  const Index count = u.rows(), width = u.cols();
  std::vector<double> s;
  for (Index i = 0; i < count; ++i) {
    if (!std::isfinite(labels[size_t(i)])) {
      throwInvalid(ErrorCode::kInvalidArgument, "labels", "finite numbers",
                   numberText(static_cast<double>(labels[size_t(i)])) + " at position " + std::to_string(i));
    }
    const auto cosine = sumInDouble(width, kProduct, u.shared()->data() + i * width, v.shared()->data() + i * width);
    s.push_back(scale * cosine);
  }
  const auto each_pair = [&](const auto& visit) {
    for (size_t i = 0; i < s.size(); ++i) {
      for (size_t j = 0; j < s.size(); ++j) {
        if (labels[i] < labels[j]) visit(i, j, s[i] - s[j]);
      }
    }
  };
  double highest = 0;
  each_pair([&](size_t, size_t, double difference) { highest = std::max(highest, difference); });
  double total = power(-highest);
  std::vector<double> ds(s.size());
  each_pair([&](size_t i, size_t j, double difference) {
    const double part = power(difference - highest);
    total += part;
    ds[i] += part;
    ds[j] -= part;
  });
  for (double& each : ds) each *= scale / total;
  return graph.record(scalarOf(highest + elementary::log(total)), {u, v}, false,
                      [u, v, ds = std::move(ds)](Matrix& gradient, Backward& pass) {
                        const auto add = [&](const Variable& own, const Variable& other) {
                          MatrixView out = pass.gradient(own.node());
                          for (Index i = 0; i < out.rows(); ++i)
                            out.row(i) += static_cast<float>(seedOf(gradient) * ds[size_t(i)]) * other.value().row(i);
                        };
                        add(u, v);
                        add(v, u);
                      });
}

}  // namespace heed::train::losses
