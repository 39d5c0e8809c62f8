/// Rotary positions: pair k of a head's features, (a, b), becomes (a cos t - b sin t, a sin t + b cos t) with the angle
/// t = i base^(-2k / D) at position i.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/check.h"
#include "core/elementary.h"
#include "heed/positional_encoding.h"

namespace heed {
namespace {

void requireOptions(Index dim, double base) {
  if (dim < 2 || dim % 2 != 0)
    throwInvalid(ErrorCode::kInvalidArgument, "rotary.dim", "an even number > 0", std::to_string(dim));
  requireBase(base);
}

}  // namespace

Rotary::Rotary(Index dim, Index length, double base, Pairing pairing, double scale, Index first)
    : dim_(dim), length_(length), first_(first), pairing_(pairing) {
  requireOptions(dim, base);
  requireAtLeast("rotary.length", length, 0);
  requireRange("firstPosition", first, 0, std::numeric_limits<Index>::max() - length);
  const Shape shape{length, dim / 2};
  allocate("rotary", shape, cos_);
  allocate("rotary", shape, sin_);
  const std::vector<double> w = sinusoidFrequencies(dim, base);
  for (size_t at = 0; at < cos_.size(); ++at) {
    const size_t position = static_cast<size_t>(first) + at / w.size();
    const double angle = static_cast<double>(position) * w[at % w.size()] * scale;
    cos_[at] = static_cast<float>(elementary::cos(angle));
    sin_[at] = static_cast<float>(elementary::sin(angle));
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

void Rotary::rotate(MatrixView x, Index num_heads, Index first_position) const {
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
    const float *cos = this->cos(first_position + t), *sin = this->sin(first_position + t);
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

GrowingRotary::GrowingRotary(Index dim, double base, Rotary::Pairing pairing, double scale, Index most)
    : dim_(dim), most_(most), base_(base), scale_(scale), pairing_(pairing) {
  requireOptions(dim, base);
}

const std::shared_ptr<const Rotary>& GrowingRotary::tables(Index length) {
  if (!tables_ || tables_->length() < std::min(length, most_)) {
    // Rounded up, so that slightly longer texts do not need new tables.
    const uint64_t rounded = std::bit_ceil(static_cast<uint64_t>(std::max<Index>(length, 64)));
    tables_ = std::make_shared<const Rotary>(dim_, static_cast<Index>(std::min(rounded, static_cast<uint64_t>(most_))),
                                             base_, pairing_, scale_);
  }
  return tables_;
}

}  // namespace heed
