/// With s_i = scale cos(a_i, b_i): L = log(1 + sum of e^{s_i - s_j} over the pairs (i, j) with label_i < label_j).
///
/// Backward, with p_ij = e^{s_i - s_j - L}: ds_i = sum of p_ij - sum of p_ji over such pairs, du_i = scale ds_i v_i for
/// the unit vectors u_i = a_i / |a_i| and v_i = b_i / |b_i|, and da = (du - (u du) u) / |a|.
#include <cmath>
#include <string>

#include "core/check.h"
#include "train/losses/loss.h"
#include "train/losses/unit_rows.h"

namespace heed::train::losses {
namespace {

/// e^x. std::exp would add 3 KB to the WebAssembly module.
double power(double x) { return elementary::pow(2.718281828459045, x); }

}  // namespace

Variable coSENT(Graph& graph, const Variable& a, const Variable& b, const std::vector<float>& labels, float scale) {
  const Index count = a.rows(), width = a.cols();
  requireShape("b", b.value(), count, width);
  requireOnePerRow("labels", labels.size(), count);
  auto u = std::make_shared<UnitRows>(unitRowsOf(*a.shared())), v = std::make_shared<UnitRows>(unitRowsOf(*b.shared()));
  std::vector<double> s;
  for (Index i = 0; i < count; ++i) {
    if (!std::isfinite(labels[size_t(i)])) {
      throwInvalid(ErrorCode::kInvalidArgument, "labels", "finite numbers",
                   numberText(static_cast<double>(labels[size_t(i)])) + " at position " + std::to_string(i));
    }
    const auto cosine = sumInDouble(width, kProduct, u->rows.data() + i * width, v->rows.data() + i * width);
    s.push_back(static_cast<double>(scale) * cosine);
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
  for (double& each : ds) each *= static_cast<double>(scale) / total;
  return graph.record(scalarOf(highest + elementary::log(total)), {a, b}, false,
                      [u, v, ds = std::move(ds), da = a.node(), db = b.node()](Matrix& gradient, Backward& pass) {
                        const auto give = [&](const std::shared_ptr<Node>& node, const UnitRows& own,
                                              const UnitRows& other) {
                          if (!node) return;
                          Matrix d(other.rows.values());
                          for (Index i = 0; i < d.rows(); ++i)
                            d.view().row(i) *= static_cast<float>(seedOf(gradient) * ds[size_t(i)]);
                          backThroughUnitRows(own, d);
                          pass.give(node, std::move(d));
                        };
                        give(da, *u, *v);
                        give(db, *v, *u);
                      });
}

Variable coSENTOf(Graph& graph, const Arguments& given) {
  const Variable b = given.variableLike("b", "a");
  const Shape shape = given.leading("a", "[..., E]");
  return coSENT(graph, given.variable("a"), b, given.numbers("labels", shape), given.number("scale"));
}

}  // namespace heed::train::losses
