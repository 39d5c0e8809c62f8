#include "kernels/matmul.h"

#include <algorithm>
#include <cmath>

namespace heed {

PackedWeight::PackedWeight(Index out, Index in, Precision precision) : out_(out), in_(in), precision_(precision) {
  const auto size = static_cast<size_t>(Shape{out, in}.size());
  if (precision == Precision::kFloat32) {
    values_.resize(size);
  } else {
    bytes_.resize(size);
    scales_.resize(static_cast<size_t>(out));
    sums_.resize(static_cast<size_t>(out));
  }
}

void PackedWeight::write(Index first, Index count, const float* rows) {
  if (precision_ == Precision::kFloat32) {
    std::copy_n(rows, count * in_, values_.begin() + first * in_);
    return;
  }
  std::vector<signed char> quantized(static_cast<size_t>(in_));
  for (Index r = 0; r < count; ++r) {
    float largest = 0;
    for (Index k = 0; k < in_; ++k) largest = std::max(largest, std::fabs(rows[r * in_ + k]));
    const float scale = largest / 127;
    for (Index k = 0; k < in_; ++k) quantized[static_cast<size_t>(k)] = static_cast<signed char>(scale > 0 ? std::nearbyint(rows[r * in_ + k] / scale) : 0);
    writeInt8(first + r, 1, quantized.data(), &scale);
  }
}

void PackedWeight::writeInt8(Index first, Index count, const signed char* rows, const float* scales) {
  for (Index r = 0; r < count; ++r) {
    int32_t sum = 0;
    for (Index k = 0; k < in_; ++k) {
      const signed char q = rows[r * in_ + k];
      sum += q;
      if (precision_ == Precision::kFloat32) values_[static_cast<size_t>((first + r) * in_ + k)] = scales[r] * static_cast<float>(q);
      else bytes_[static_cast<size_t>((first + r) * in_ + k)] = q;
    }
    if (precision_ == Precision::kFloat32) continue;
    scales_[static_cast<size_t>(first + r)] = scales[r];
    sums_[static_cast<size_t>(first + r)] = sum;
  }
}

void PackedWeight::read(Index first, Index count, float* rows) const {
  for (Index i = 0; i < count * in_; ++i) {
    const auto at = static_cast<size_t>(first * in_ + i);
    rows[i] = precision_ == Precision::kFloat32 ? values_[at] : scales_[static_cast<size_t>(first + i / in_)] * static_cast<float>(bytes_[at]);
  }
}

struct PackedWeightAccess {
  static void multiply(ConstMatrixView a, const Product& product) {
    const PackedWeight& w = *product.weight;
    std::vector<float> values(static_cast<size_t>(w.in_));
    MatrixView out = product.out;
    const Epilogue& epilogue = product.epilogue;
    RowMajorMatrix c(a.rows(), w.out_);
    for (Index j = 0; j < w.out_; ++j) {
      w.read(j, 1, values.data());
      for (Index i = 0; i < a.rows(); ++i) {
        float sum = 0;
        for (Index k = 0; k < w.in_; ++k) sum += a(i, k) * values[static_cast<size_t>(k)];
        c(i, j) = sum + (epilogue.bias ? epilogue.bias[j] : 0);
      }
    }
    activate(view(c.data(), c.rows(), c.cols()), epilogue.activation);
    if (epilogue.residual) c += view(epilogue.residual, c.rows(), c.cols(), epilogue.residual_stride);
    out = c;
  }
};

void matmul(ConstMatrixView a, std::span<const Product> products, Arena&) {
  for (const Product& product : products) PackedWeightAccess::multiply(a, product);
}

}  // namespace heed
