#include "heed/norm.h"

#include "check.h"

namespace heed {
namespace {

LayerNormOptions checked(const LayerNormOptions& options) {
  requireAtLeast("normalizedShape", options.normalized_shape, 1);
  requireRoom("weight", {options.normalized_shape});
  requireEps(options.eps);
  return options;
}

BatchNormOptions checked(const BatchNormOptions& options) {
  requireAtLeast("numFeatures", options.num_features, 1);
  requireRoom("weight", {options.num_features});
  requireEps(options.eps);
  return options;
}

}  // namespace

LayerNorm::LayerNorm(const LayerNormOptions& options)
    : options_(checked(options)),
      weight_(options.elementwise_affine ? static_cast<size_t>(options.normalized_shape) : 0, 1.0f),
      bias_(options.elementwise_affine && options.bias ? static_cast<size_t>(options.normalized_shape) : 0) {}

void LayerNorm::forward(ConstMatrixView x, MatrixView output) const {
  requireShape("x", x, x.rows(), options_.normalized_shape);
  requireShape("output", readOnly(output), x.rows(), options_.normalized_shape);
  layerNorm(x, weight_.empty() ? nullptr : weight_.data(), bias_.empty() ? nullptr : bias_.data(), options_.eps,
            output);
}

void LayerNorm::collect(const std::string& prefix, std::vector<Parameter>& out) {
  if (!weight_.empty()) out.push_back(plainParameter(prefix + "weight", {options_.normalized_shape}, weight_.data()));
  if (!bias_.empty()) out.push_back(plainParameter(prefix + "bias", {options_.normalized_shape}, bias_.data()));
}

BatchNorm::BatchNorm(const BatchNormOptions& options)
    : options_(checked(options)),
      weight_(static_cast<size_t>(options.num_features), 1.0f),
      bias_(weight_.size()),
      running_mean_(weight_.size()),
      running_var_(weight_.size(), 1.0f) {}

void BatchNorm::forward(ConstMatrixView x, MatrixView output) const {
  const Index width = options_.num_features;
  requireShape("x", x, x.rows(), width);
  requireShape("output", readOnly(output), x.rows(), width);
  const auto row = [width](const std::vector<float>& vector) {
    return Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>>(vector.data(), width);
  };
  for (Index t = 0; t < x.rows(); ++t) {
    output.row(t).array() =
        row(weight_) * (x.row(t).array() - row(running_mean_)) / (row(running_var_) + options_.eps).sqrt() + row(bias_);
  }
}

void BatchNorm::collect(const std::string& prefix, std::vector<Parameter>& out) {
  const Shape shape{options_.num_features};
  out.push_back(plainParameter(prefix + "weight", shape, weight_.data()));
  out.push_back(plainParameter(prefix + "bias", shape, bias_.data()));
  out.push_back(plainParameter(prefix + "running_mean", shape, running_mean_.data()));
  out.push_back(plainParameter(prefix + "running_var", shape, running_var_.data()));
}

}  // namespace heed
