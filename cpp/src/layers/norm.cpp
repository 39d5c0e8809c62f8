#include "heed/norm.h"

#include "core/check.h"

namespace heed {
namespace {

LayerNormOptions checked(const LayerNormOptions& options) {
  requireAtLeast("normalizedShape", options.normalized_shape, 1);
  requireRoom("weight", {options.normalized_shape});
  requireEps(options.eps);
  LayerNormOptions o = options;
  o.bias = o.bias && !o.rms;
  return o;
}

BatchNormOptions checked(const BatchNormOptions& options) {
  requireAtLeast("numFeatures", options.num_features, 1);
  requireRoom("weight", {options.num_features});
  requireEps(options.eps);
  requireRate("momentum", options.momentum);
  return options;
}

}  // namespace

LayerNorm::LayerNorm(const LayerNormOptions& options)
    : options_(checked(options)),
      weight_(options_.elementwise_affine ? static_cast<size_t>(options_.normalized_shape) : 0,
              1.0f - options_.weight_offset),
      bias_(options_.elementwise_affine && options_.bias ? static_cast<size_t>(options_.normalized_shape) : 0) {}

void LayerNorm::forward(ConstMatrixView x, MatrixView output) const {
  requireColumns("x", x, options_.normalized_shape);
  requireShape("output", readOnly(output), x.rows(), options_.normalized_shape);
  if (options_.rms) return rmsNorm(x, weight(), options_.weight_offset, options_.eps, output);
  layerNorm(x, weight(), bias(), options_.eps, output);
}

std::vector<Parameter> LayerNorm::ownParameters() {
  std::vector<Parameter> own;
  const auto add = [&](const char* name, std::vector<float>& values, ParameterKind kind, float start) {
    if (values.empty()) return;
    own.push_back(
        plainParameter(name, {options_.normalized_shape}, values.data(), kind, InitialValue::constant(start)));
  };
  add("weight", weight_, ParameterKind::kWeight, 1 - options_.weight_offset);
  add("bias", bias_, ParameterKind::kBias, 0);
  return own;
}

LayerScale::LayerScale(Index num_features) : weight_(static_cast<size_t>(num_features), 1.0f) {}

void LayerScale::forward(ConstMatrixView x, MatrixView output) const {
  const auto width = static_cast<Index>(weight_.size());
  requireColumns("x", x, width);
  for (Index t = 0; t < x.rows(); ++t) {
    const float* from = x.data() + t * x.outerStride();
    float* to = output.data() + t * output.outerStride();
    for (Index e = 0; e < width; ++e) to[e] = from[e] * weight_[static_cast<size_t>(e)];
  }
}

std::vector<Parameter> LayerScale::ownParameters() {
  return {plainParameter("weight", {static_cast<Index>(weight_.size())}, weight_.data(), ParameterKind::kWeight,
                         InitialValue::constant(1))};
}

BatchNorm::BatchNorm(const BatchNormOptions& options)
    : options_(checked(options)),
      weight_(static_cast<size_t>(options.num_features), 1.0f),
      bias_(weight_.size()),
      running_mean_(weight_.size()),
      running_var_(weight_.size(), 1.0f) {}

void BatchNorm::forward(ConstMatrixView x, MatrixView output) const {
  const Index width = options_.num_features;
  requireColumns("x", x, width);
  requireShape("output", readOnly(output), x.rows(), width);
  const auto row = [width](const std::vector<float>& vector) {
    return Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>>(vector.data(), width);
  };
  const Eigen::Array<float, 1, Eigen::Dynamic> deviation = (row(running_var_) + options_.eps).sqrt();
  for (Index t = 0; t < x.rows(); ++t) {
    output.row(t).array() = row(weight_) * (x.row(t).array() - row(running_mean_)) / deviation + row(bias_);
  }
}

std::vector<Parameter> BatchNorm::ownParameters() {
  const auto vector = [&](const char* name, std::vector<float>& values, ParameterKind kind, float start) {
    return plainParameter(name, {options_.num_features}, values.data(), kind, InitialValue::constant(start));
  };
  return {vector("weight", weight_, ParameterKind::kWeight, 1), vector("bias", bias_, ParameterKind::kBias, 0),
          vector("running_mean", running_mean_, ParameterKind::kBuffer, 0),
          vector("running_var", running_var_, ParameterKind::kBuffer, 1)};
}

}  // namespace heed
