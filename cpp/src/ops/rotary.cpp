/// Rotary positions: pair k of a head's features, (a, b), becomes (a cos t - b sin t, a sin t + b cos t) with the angle
/// t = i base^(-2k / D) at position i.
#include "core/check.h"
#include "core/elementary.h"
#include "heed/positional_encoding.h"

namespace heed {

Rotary::Rotary(Index dim, Index max_length, double base, Pairing pairing, double scale)
    : dim_(dim), max_length_(max_length), pairing_(pairing) {
  if (dim < 2 || dim % 2 != 0)
    refuse(ErrorCode::kInvalidArgument, "rotary.dim", "an even number > 0", std::to_string(dim));
  requireAtLeast("rotary.maxLength", max_length, 0);
  requireBase(base);
  const Shape shape{max_length, dim / 2};
  allocate("rotary", shape, cos_);
  allocate("rotary", shape, sin_);
  const std::vector<double> w = sinusoidFrequencies(dim, base);
  for (size_t at = 0; at < cos_.size(); ++at) {
    const size_t position = at / w.size();
    const double angle = static_cast<double>(position) * w[at % w.size()] * scale;
    cos_[at] = static_cast<float>(elementary::cos(angle));
    sin_[at] = static_cast<float>(elementary::sin(angle));
  }
}

Rotary::Rotary(ConstMatrixView angles)
    : dim_(2 * angles.cols()), max_length_(angles.rows()), pairing_(Pairing::kHalfSplit) {
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

void Rotary::rotate(MatrixView x, Index num_heads, Index first_position) const {
  const Index head_width = x.cols() / num_heads;
  if (head_width < dim_ || x.cols() % num_heads != 0) {
    refuse(ErrorCode::kShapeMismatch, "rotary.dim",
           "at most the width of a head, " + std::to_string(x.cols()) + " / " + std::to_string(num_heads),
           std::to_string(dim_));
  }
  if (first_position < 0 || first_position > max_length_ - x.rows()) {
    refuse(ErrorCode::kInvalidArgument, "rotary", "positions from 0 to " + std::to_string(max_length_ - 1),
           std::to_string(first_position) + " to " + std::to_string(first_position + x.rows() - 1));
  }
  const Index half = dim_ / 2;
  const Index step = pairing_ == Pairing::kHalfSplit ? 1 : 2;
  const Index partner = pairing_ == Pairing::kHalfSplit ? half : 1;
  for (Index t = 0; t < x.rows(); ++t) {
    const float* cos = cos_.data() + (first_position + t) * half;
    const float* sin = sin_.data() + (first_position + t) * half;
    for (Index h = 0; h < num_heads; ++h) {
      float* head = x.data() + t * x.outerStride() + h * head_width;
      for (Index k = 0; k < half; ++k) {
        const float a = head[k * step], b = head[k * step + partner];
        head[k * step] = a * cos[k] - b * sin[k];
        head[k * step + partner] = a * sin[k] + b * cos[k];
      }
    }
  }
}

}  // namespace heed
