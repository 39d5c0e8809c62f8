/// With the unit vectors u_i = a_i / |a_i|, v_j = b_j / |b_j| and S = scale U V^T: L = mean over i of
/// log(sum_j e^{S_ij}) - S_ii, where j runs over i and its negatives.
///
/// Backward, with P = softmax(S) and N the number of rows of a: dS = (P - I) / N, dU = scale dS V, dV = scale dS^T U.
/// U and V are recorded by normalize() (ops/pooling_backward.cpp).
#include <cstring>
#include <limits>

#include "core/check.h"
#include "gemm/gradient_products.h"
#include "heed/linear.h"
#include "heed/train/ops.h"
#include "ops/softmax.h"
#include "train/losses/loss.h"

namespace heed::train::losses {
namespace {

bool sameRow(const Matrix& x, Index i, Index j) {
  const auto bytes = static_cast<size_t>(x.cols()) * sizeof(float);
  return std::memcmp(x.data() + i * x.cols(), x.data() + j * x.cols(), bytes) == 0;
}

}  // namespace

Variable infoNCE(Graph& graph, const Arguments& given) {
  for (const char* name : {"a", "b"}) {
    if (given.shape(name).rank() != 2) throwShapeMismatch(name, "[N, E]", given.shape(name));
  }
  const Variable a = given.variable("a"), b = given.variable("b");
  const float scale = given.number("scale");
  const std::vector<int32_t> groups = given.indices("groups");
  const Index count = a.rows(), width = a.cols(), given_groups = static_cast<Index>(groups.size());
  if (b.rows() < count || b.cols() != width) {
    throwShapeMismatch(
        "b", "a row per row of a, " + Shape{count, width}.toString() + ", and any number of further negatives",
        Shape{b.rows(), b.cols()});
  }
  if (given_groups != 0 && given_groups != count && given_groups != b.rows())
    throwShapeMismatch("groups", Shape{count}.toString() + ", one per row", Shape{given_groups});
  const Variable u = normalize(graph, a), v = normalize(graph, b);
  auto p = std::make_shared<Matrix>(count, b.rows());
  heed::linear(u.value(), v.value(), nullptr, Activation::kIdentity, p->view(), graph.context());
  p->view() *= scale;

  const auto is_negative = [&](Index i, Index j) {
    const auto has_group = static_cast<size_t>(j) < groups.size();
    if (has_group && groups[static_cast<size_t>(i)] == groups[static_cast<size_t>(j)]) return false;
    return j >= count || !(sameRow(*a.shared(), i, j) && sameRow(*b.shared(), i, j));
  };
  double sum = 0;
  for (Index i = 0; i < count; ++i) {
    float* row = p->data() + i * b.rows();
    for (Index j = 0; j < b.rows(); ++j) {
      if (j != i && !is_negative(i, j)) row[j] = -std::numeric_limits<float>::infinity();
    }
    const auto positive = static_cast<double>(row[i]);
    const auto highest = static_cast<double>(p->view().row(i).maxCoeff());
    const float total = exponentials(row, b.rows());
    p->view().row(i) /= total;
    sum += highest + elementary::log(static_cast<double>(total)) - positive;
  }
  return graph.record(scalarOf(sum / static_cast<double>(count)), {u, v}, false,
                      [u, v, p, scale](Matrix& gradient, Backward& pass) {
                        const auto rows = static_cast<double>(p->rows());
                        const auto factor = static_cast<float>(seedOf(gradient) * static_cast<double>(scale) / rows);
                        // scale dS
                        Matrix ds(p->values());
                        for (Index i = 0; i < ds.rows(); ++i) ds.data()[i * ds.cols() + i] -= 1;
                        ds.view() *= factor;
                        pass.add(u.node(), [&](MatrixView du, const ConstMatrixView* residual) {
                          inputGradient(ds.values(), v.value(), du, residual, pass.context());
                        });
                        if (MatrixView dv = pass.gradient(v.node()); dv.data())
                          addWeightGradient(ds.values(), u.value(), dv, pass.context());
                      });
}

}  // namespace heed::train::losses
