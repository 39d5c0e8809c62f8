#include "train/ops/products.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "train/ops/panel_products.h"

namespace heed::train {
namespace {

/// to[0, 4 N) += the sum of `rows` rows, which are added first.
template <int N>
void addRows(const float* from, Index stride, Index rows, float* to) {
  simd::Floats<N> sum = simd::loadFloats<N>(from);
  for (Index t = 1; t < rows; ++t) sum = sum + simd::loadFloats<N>(from + t * stride);
  simd::store(to, simd::loadFloats<N>(to) + sum);
}

}  // namespace

void inputGradient(ConstMatrixView gradient, const PackedWeight& weight, MatrixView out,
                   const ConstMatrixView* residual, Context& context) {
  const Arena::Scope scope(context.arena);
  const Panels panels = packPanels(static_cast<const Float32Weight&>(weight), context.arena);
  multiply(gradient, panels, out, residual != nullptr, context);
}

void inputGradient(ConstMatrixView gradient, ConstMatrixView weight, MatrixView out, const ConstMatrixView* residual,
                   Context& context) {
  const Arena::Scope scope(context.arena);
  multiply(gradient, packPanels(weight, context.arena), out, residual != nullptr, context);
}

void addWeightGradient(ConstMatrixView gradient, ConstMatrixView x, MatrixView out, Context& context) {
  // By chains of sums: scratch memory does not grow with the rows, and the sums are those of one product.
  for (Index first = 0; first < x.rows(); first += kChain) {
    const Arena::Scope scope(context.arena);
    const Index rows = std::min(kChain, x.rows() - first);
    const auto part = [&](const ConstMatrixView& m) {
      return view(m.row(first).data(), rows, m.cols(), m.outerStride());
    };
    addTransposedProduct(part(gradient), packPanels(part(x), context.arena), 0, out, context);
  }
}

void addBiasGradient(ConstMatrixView gradient, MatrixView out) {
  // Sums over many rows lose digits: rows are added in groups, then the groups are added.
  constexpr Index kGroup = 32, kColumns = 32;
  const Index stride = gradient.outerStride(), width = gradient.cols();
  for (Index first = 0; first < gradient.rows(); first += kGroup) {
    const Index rows = std::min(kGroup, gradient.rows() - first);
    const float* from = gradient.data() + first * stride;
    Index j = 0;
    for (; j + kColumns <= width; j += kColumns) addRows<kColumns / 4>(from + j, stride, rows, out.data() + j);
    for (; j < width; ++j) {
      float sum = 0;
      for (Index t = 0; t < rows; ++t) sum += from[t * stride + j];
      out.data()[j] += sum;
    }
  }
}

}  // namespace heed::train
