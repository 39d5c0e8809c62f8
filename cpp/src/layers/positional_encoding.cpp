#include "heed/positional_encoding.h"

#include <cmath>

namespace heed {

// Angles are formed in double: at position 10^4 a float's angle would be off by 10^-3.

void positionalEncoding(double base, MatrixView output, Index first_position) {
  const Index width = output.cols();
  for (Index k = 0; 2 * k < width; ++k) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(width));
    for (Index i = 0; i < output.rows(); ++i) {
      const double angle = static_cast<double>(first_position + i) * frequency;
      output(i, 2 * k) = static_cast<float>(std::sin(angle));
      if (2 * k + 1 < width) output(i, 2 * k + 1) = static_cast<float>(std::cos(angle));
    }
  }
}

Rotary::Rotary(Index dim, Index max_length, double base, Pairing pairing)
    : dim_(dim),
      max_length_(max_length),
      pairing_(pairing),
      cos_(static_cast<size_t>(max_length * (dim / 2))),
      sin_(cos_.size()) {
  const Index half = dim / 2;
  for (Index k = 0; k < half; ++k) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(dim));
    for (Index i = 0; i < max_length; ++i) {
      const double angle = static_cast<double>(i) * frequency;
      cos_[static_cast<size_t>(i * half + k)] = static_cast<float>(std::cos(angle));
      sin_[static_cast<size_t>(i * half + k)] = static_cast<float>(std::sin(angle));
    }
  }
}

void Rotary::rotate(MatrixView x, Index num_heads, Index first_position) const {
  const Index half = dim_ / 2;
  const Index head_width = x.cols() / num_heads;
  const Index stride = pairing_ == Pairing::kHalfSplit ? 1 : 2;
  const Index partner = pairing_ == Pairing::kHalfSplit ? half : 1;
  for (Index t = 0; t < x.rows(); ++t) {
    const float* cos = cos_.data() + (first_position + t) * half;
    const float* sin = sin_.data() + (first_position + t) * half;
    for (Index h = 0; h < num_heads; ++h) {
      float* head = x.data() + t * x.outerStride() + h * head_width;
      for (Index k = 0; k < half; ++k) {
        float& a = head[k * stride];
        float& b = head[k * stride + partner];
        const float turned = a * cos[k] - b * sin[k];
        b = b * cos[k] + a * sin[k];
        a = turned;
      }
    }
  }
}

}  // namespace heed
