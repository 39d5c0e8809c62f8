/// With the unit vectors u_i = x_i / |x_i| and S = scale U U^T, let p run over the N_i rows other than i that have the
/// label of i: L = mean of log(sum_{j != i} e^{S_ij}) - mean_p S_ip over the A rows i with N_i > 0.
///
/// Backward, with P = softmax(S) without the diagonal and Q_ip = 1 / N_i: dS = (P - Q) / A in these A rows and 0 in all
/// others, dU = scale (dS + dS^T) U. U is recorded by normalize() (ops/pooling_backward.cpp).
#include <limits>

#include "gemm/gradient_products.h"
#include "heed/linear.h"
#include "heed/train/ops.h"
#include "ops/softmax.h"
#include "train/losses/loss.h"

namespace heed::train::losses {

Variable supervisedContrastive(Graph& graph, const Arguments& given) {
  const Variable u = normalize(graph, given.variable("x"));
  const std::vector<int32_t> labels = given.indices("labels", given.leading("x", "[..., E]"));
  const float scale = given.number("scale");
  const Index count = u.rows();
  auto ds = std::make_shared<Matrix>(count, count);
  heed::linear(u.value(), u.value(), nullptr, Activation::kIdentity, ds->view(), graph.context());
  ds->view() *= scale;

  double sum = 0;
  Index anchors = 0;
  for (Index i = 0; i < count; ++i) {
    float* row = ds->data() + i * count;
    const auto is_positive = [&](Index j) { return j != i && labels[size_t(j)] == labels[size_t(i)]; };
    double similarity = 0;
    Index positives = 0;
    for (Index j = 0; j < count; ++j) {
      if (!is_positive(j)) continue;
      similarity += static_cast<double>(row[j]);
      ++positives;
    }
    if (positives == 0) {
      ds->view().row(i).setZero();
      continue;
    }
    ++anchors;
    row[i] = -std::numeric_limits<float>::infinity();
    const auto highest = static_cast<double>(ds->view().row(i).maxCoeff());
    const float total = exponentials(row, count);
    ds->view().row(i) /= total;
    const auto share = static_cast<double>(positives);
    sum += highest + elementary::log(static_cast<double>(total)) - similarity / share;
    for (Index j = 0; j < count; ++j) {
      if (is_positive(j)) row[j] -= static_cast<float>(1 / share);
    }
  }
  const double divisor = anchors > 0 ? static_cast<double>(anchors) : 1;
  return graph.record(scalarOf(sum / divisor), {u}, false, [u, ds, scale, divisor](Matrix& gradient, Backward& pass) {
    Matrix scaled(ds->values());
    scaled.view() *= static_cast<float>(seedOf(gradient) * static_cast<double>(scale) / divisor);
    pass.add(u.node(), [&](MatrixView du, const ConstMatrixView* residual) {
      inputGradient(scaled.values(), u.value(), du, residual, pass.context());
      addWeightGradient(scaled.values(), u.value(), du, pass.context());
    });
  });
}

}  // namespace heed::train::losses
