#include "train/losses/unit_rows.h"

#include <cmath>

#include "train/ops/vectors.h"

namespace heed::train {
namespace {

constexpr float kShortest = 1e-12f;

}  // namespace

UnitRows unitRowsOf(const Matrix& x) {
  UnitRows units{Matrix(x.rows(), x.cols()), {}};
  for (Index i = 0; i < x.rows(); ++i) {
    const float* row = x.data() + i * x.cols();
    const auto length = static_cast<float>(std::sqrt(sumInDouble(x.cols(), kProduct, row, row)));
    units.lengths.push_back(length);
    units.rows.view().row(i) = x.values().row(i) / std::max(length, kShortest);
  }
  return units;
}

void backThroughUnitRows(const UnitRows& units, Matrix& gradient) {
  const Index width = gradient.cols();
  for (Index i = 0; i < gradient.rows(); ++i) {
    const float* u = units.rows.data() + i * width;
    float* d = gradient.data() + i * width;
    const float length = units.lengths[static_cast<size_t>(i)];
    // A row with a norm below kShortest was divided by that constant, not by its norm.
    const float along = length < kShortest ? 0 : sumOver(width, kProduct, u, d);
    const v128_t projection = simd::splat(along), inverse = simd::splat(1 / std::max(length, kShortest));
    transform<4>(width, d, [=](const auto& x, const auto& dx) { return (dx - x * projection) * inverse; }, u, d);
  }
}

}  // namespace heed::train
