#include "heed/positional_encoding.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "check.h"
#include "elementary.h"

namespace heed {
namespace {

/// w_k = base^(-2k/width), for each pair of features. Angles i w_k are formed in double: at position 10^4 a float's
/// would be off by 10^-3.
std::vector<double> frequencies(Index width, double base) {
  std::vector<double> all;
  for (Index k = 0; 2 * k < width; ++k)
    all.push_back(elementary::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(width)));
  return all;
}

PositionalEncodingOptions checked(const PositionalEncodingOptions& options) {
  requireAtLeast("embedDim", options.embed_dim, 1);
  requireAtLeast("maxLength", options.max_length, 1);
  requireRoom("weight", {options.max_length, options.embed_dim});
  return options;
}

}  // namespace

void positionalEncoding(double base, MatrixView output, Index first_position) {
  requireBase(base);
  const std::vector<double> w = frequencies(output.cols(), base);
  for (Index i = 0; i < output.rows(); ++i) {
    for (Index column = 0; column < output.cols(); ++column) {
      const double angle = static_cast<double>(first_position + i) * w[static_cast<size_t>(column / 2)];
      output(i, column) = static_cast<float>(column % 2 == 0 ? elementary::sin(angle) : elementary::cos(angle));
    }
  }
}

PositionalEncoding::PositionalEncoding(const PositionalEncodingOptions& options) : options_(checked(options)) {
  const Shape shape{options.max_length, options.embed_dim};
  allocate("weight", shape, rows_, static_cast<size_t>(shape.size()));
  if (!options.learned) positionalEncoding(options.base, view(rows_.data(), options.max_length, options.embed_dim));
}

Index PositionalEncoding::outputWidth(Index width) const {
  if (options_.mode == PositionalEncodingOptions::Mode::kConcat) return width + options_.embed_dim;
  if (width != options_.embed_dim) {
    refuse(ErrorCode::kShapeMismatch, "x", "width " + std::to_string(width),
           "embedDim, " + std::to_string(options_.embed_dim));
  }
  return width;
}

void PositionalEncoding::forward(ConstMatrixView x, const Sequences& sequences, MatrixView output) const {
  requireShape("x", x, sequences.totalRows(), x.cols());
  requireShape("output", readOnly(output), x.rows(), outputWidth(x.cols()));
  if (sequences.maxLength() > options_.max_length) {
    refuse(ErrorCode::kShapeMismatch, "x", std::to_string(sequences.maxLength()) + " positions",
           "at most maxLength, " + std::to_string(options_.max_length));
  }
  const Index width = options_.embed_dim;
  for (Index n = 0; n < sequences.count(); ++n) {
    for (Index i = 0; i < sequences.length(n); ++i) {
      const Index t = sequences.begin(n) + i;
      const float* from = x.data() + t * x.outerStride();
      const float* row = rows_.data() + i * width;
      float* to = output.data() + t * output.outerStride();
      if (options_.mode == PositionalEncodingOptions::Mode::kConcat) {
        std::copy_n(row, width, std::copy_n(from, x.cols(), to));
      } else {
        std::transform(from, from + width, row, to, std::plus<>());
      }
    }
  }
}

void PositionalEncoding::collect(const std::string& prefix, std::vector<Parameter>& out) {
  if (!options_.learned) return;
  out.push_back(plainParameter(prefix + "weight", {options_.max_length, options_.embed_dim}, rows_.data()));
}

Rotary::Rotary(Index dim, Index max_length, double base, Pairing pairing)
    : dim_(dim), max_length_(max_length), pairing_(pairing) {
  if (dim < 2 || dim % 2 != 0)
    refuse(ErrorCode::kInvalidArgument, "rotary.dim", std::to_string(dim), "an even number > 0");
  requireAtLeast("rotary.maxLength", max_length, 0);
  requireBase(base);
  const Shape shape{max_length, dim / 2};
  const size_t size = requireRoom("rotary", shape);
  allocate("rotary", shape, cos_, size);
  allocate("rotary", shape, sin_, size);
  const std::vector<double> w = frequencies(dim, base);
  for (size_t at = 0; at < size; ++at) {
    const double angle = static_cast<double>(at / w.size()) * w[at % w.size()];
    cos_[at] = static_cast<float>(elementary::cos(angle));
    sin_[at] = static_cast<float>(elementary::sin(angle));
  }
}

void Rotary::rotate(MatrixView x, Index num_heads, Index first_position) const {
  const Index head_width = x.cols() / num_heads;
  if (head_width < dim_ || x.cols() % num_heads != 0) {
    refuse(ErrorCode::kShapeMismatch, "rotary.dim", std::to_string(dim_),
           "at most the width of a head, " + std::to_string(x.cols()) + " / " + std::to_string(num_heads));
  }
  if (first_position < 0 || first_position > max_length_ - x.rows()) {
    refuse(ErrorCode::kInvalidArgument, "rotary",
           "positions " + std::to_string(first_position) + " to " + std::to_string(first_position + x.rows() - 1),
           "0 to " + std::to_string(max_length_ - 1));
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
