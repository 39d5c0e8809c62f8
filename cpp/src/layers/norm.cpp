#include "heed/norm.h"

#include <cmath>

namespace heed {

void layerNorm(ConstMatrixView x, const float* weight, const float* bias, float eps, MatrixView output) {
  const Index width = x.cols();
  for (Index t = 0; t < x.rows(); ++t) {
    const auto row = x.row(t).array();
    const float mean = row.mean();
    const float variance = (row - mean).square().mean();
    output.row(t) = ((row - mean) / std::sqrt(variance + eps)).matrix();
    if (weight) output.row(t).array() *= ConstVectorView(weight, width).transpose().array();
    if (bias) output.row(t) += ConstVectorView(bias, width).transpose();
  }
}

LayerNorm::LayerNorm(const LayerNormOptions& options)
    : options_(options),
      weight_(options.elementwise_affine ? static_cast<size_t>(options.normalized_shape) : 0, 1.0f),
      bias_(options.elementwise_affine && options.bias ? static_cast<size_t>(options.normalized_shape) : 0) {}

void LayerNorm::forward(ConstMatrixView x, MatrixView output) const {
  layerNorm(x, weight_.empty() ? nullptr : weight_.data(), bias_.empty() ? nullptr : bias_.data(), options_.eps, output);
}

void LayerNorm::collect(const std::string& prefix, std::vector<Parameter>& out) {
  if (!weight_.empty()) out.push_back(plainParameter(prefix + "weight", {options_.normalized_shape}, weight_.data()));
  if (!bias_.empty()) out.push_back(plainParameter(prefix + "bias", {options_.normalized_shape}, bias_.data()));
}

BatchNorm::BatchNorm(const BatchNormOptions& options)
    : options_(options),
      weight_(static_cast<size_t>(options.num_features), 1.0f),
      bias_(weight_.size()),
      running_mean_(weight_.size()),
      running_var_(weight_.size(), 1.0f) {}

void BatchNorm::forward(ConstMatrixView x, MatrixView output) const {
  const Index width = options_.num_features;
  const Eigen::RowVectorXf scale =
      (ConstVectorView(weight_.data(), width).array() / (ConstVectorView(running_var_.data(), width).array() + options_.eps).sqrt()).matrix().transpose();
  const Eigen::RowVectorXf shift =
      ConstVectorView(bias_.data(), width).transpose() - ConstVectorView(running_mean_.data(), width).transpose().cwiseProduct(scale);
  output.array() = (x.array().rowwise() * scale.array()).rowwise() + shift.array();
}

void BatchNorm::collect(const std::string& prefix, std::vector<Parameter>& out) {
  const Shape shape{options_.num_features};
  out.push_back(plainParameter(prefix + "weight", shape, weight_.data()));
  out.push_back(plainParameter(prefix + "bias", shape, bias_.data()));
  out.push_back(plainParameter(prefix + "running_mean", shape, running_mean_.data()));
  out.push_back(plainParameter(prefix + "running_var", shape, running_var_.data()));
}

}  // namespace heed
