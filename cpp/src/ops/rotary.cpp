/// Rotary positions: pair k of a head's features, (a, b), becomes (a cos t - b sin t, a sin t + b cos t) with the angle
/// t = i base^(-2k / D), or i frequencies[k], at position i.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/check.h"
#include "core/elementary.h"
#include "heed/positional_encoding.h"

namespace heed {

RotaryAngles RotaryAngles::of(Index dim, double base, double scale) {
  if (dim < 2 || dim % 2 != 0)
    throwInvalid(ErrorCode::kInvalidArgument, "rotary.dim", "an even number > 0", std::to_string(dim));
  requireBase(base);
  RotaryAngles angles{sinusoidFrequencies(dim, base)};
  for (double& frequency : angles.frequencies) frequency *= scale;
  return angles;
}

Rotary::Rotary(const RotaryAngles& angles, Index length, Pairing pairing, Index first)
    : dim_(2 * static_cast<Index>(angles.frequencies.size())), length_(length), first_(first), pairing_(pairing) {
  requireAtLeast("rotary.length", length, 0);
  requireRange("firstPosition", first, 0, std::numeric_limits<Index>::max() - length);
  const Shape shape{length, dim_ / 2};
  allocate("rotary", shape, cos_);
  allocate("rotary", shape, sin_);
  const std::vector<double>& w = angles.frequencies;
  for (size_t at = 0; at < cos_.size(); ++at) {
    const size_t position = static_cast<size_t>(first) + at / w.size();
    const double angle = static_cast<double>(position) * w[at % w.size()];
    cos_[at] = static_cast<float>(angles.factor * elementary::cos(angle));
    sin_[at] = static_cast<float>(angles.factor * elementary::sin(angle));
  }
}

Rotary::Rotary(ConstMatrixView angles)
    : dim_(2 * angles.cols()), length_(angles.rows()), pairing_(Pairing::kHalfSplit) {
  requireAtLeast("angles", angles.cols(), 1);
  const Shape shape{angles.rows(), angles.cols()};
  allocate("rotary", shape, cos_);
  allocate("rotary", shape, sin_);
  for (Index i = 0, at = 0; i < angles.rows(); ++i) {
    for (Index k = 0; k < angles.cols(); ++k, ++at) {
      const auto angle = static_cast<double>(angles(i, k));
      cos_[static_cast<size_t>(at)] = static_cast<float>(elementary::cos(angle));
      sin_[static_cast<size_t>(at)] = static_cast<float>(elementary::sin(angle));
    }
  }
}

void Rotary::rotate(MatrixView x, Index num_heads, Index first_position, bool back) const {
  const Index head_width = x.cols() / num_heads;
  if (head_width < dim_ || x.cols() % num_heads != 0) {
    throwInvalid(ErrorCode::kShapeMismatch, "rotary.dim",
                 "at most the width of a head, " + std::to_string(x.cols()) + " / " + std::to_string(num_heads),
                 std::to_string(dim_));
  }
  if (first_position < first_ || first_position - first_ > length_ - x.rows()) {
    throwInvalid(ErrorCode::kInvalidArgument, "rotary",
                 "positions from " + std::to_string(first_) + " to " + std::to_string(first_ + length_ - 1),
                 std::to_string(first_position) + " to " + std::to_string(int64_t{first_position} + x.rows() - 1));
  }
  const Index half = dim_ / 2;
  const Index step = pairing_ == Pairing::kHalfSplit ? 1 : 2;
  const Index partner = pairing_ == Pairing::kHalfSplit ? half : 1;
  for (Index t = 0; t < x.rows(); ++t) {
    const Index row = (first_position - first_ + t) * half;
    const float *cos = cos_.data() + row, *sin = sin_.data() + row;
    for (Index h = 0; h < num_heads; ++h) {
      float* head = x.data() + t * x.outerStride() + h * head_width;
      for (Index k = 0; k < half; ++k) {
        const float a = head[k * step], b = head[k * step + partner], s = back ? -sin[k] : sin[k];
        head[k * step] = a * cos[k] - b * s;
        head[k * step + partner] = a * s + b * cos[k];
      }
    }
  }
}

const std::shared_ptr<const Rotary>& GrowingRotary::tables(Index length) {
  if (!tables_ || tables_->length() < std::min(length, most_)) {
    // Rounded up, so that slightly longer texts do not need new tables.
    const uint64_t rounded = std::bit_ceil(static_cast<uint64_t>(std::max<Index>(length, 64)));
    tables_ = std::make_shared<const Rotary>(
        angles_, static_cast<Index>(std::min(rounded, static_cast<uint64_t>(most_))), pairing_);
  }
  return tables_;
}

}  // namespace heed
