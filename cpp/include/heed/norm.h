#pragma once

#include "heed/module.h"

/// Notation: T rows, E features.
namespace heed {

/// Normalizes each row: gamma (x - mean) / sqrt(variance + eps) + beta, where the variance divides by E (Ba, Kiros,
/// Hinton 2016, arXiv:1607.06450). `weight` (gamma) and `bias` (beta) are (E) or null. x and output (T, E) may be the
/// same. The order of summation does not depend on the row's position in memory. Features are summed in fp32 in chains
/// of at most 512; blocks of chains are added in double precision. The relative error of sums therefore does not grow
/// with E: it is at most 520 2^-24.
void layerNorm(ConstMatrixView x, const float* weight, const float* bias, float eps, MatrixView output);

/// Divides each row by its root mean square: (gamma + weight_offset) x / sqrt(mean(x^2) + eps) (Zhang, Sennrich 2019,
/// arXiv:1910.07467). `weight` (gamma) is (E), or null for no factor. x and output (T, E) may be the same. Summation as
/// in layerNorm().
void rmsNorm(ConstMatrixView x, const float* weight, float weight_offset, float eps, MatrixView output);

struct LayerNormOptions {
  Index normalized_shape = 0;
  float eps = 1e-5f;
  bool elementwise_affine = true;
  bool bias = true;
  bool rms = false;         ///< rmsNorm() instead of layerNorm(), as torch.nn.RMSNorm, which has no bias
  float weight_offset = 0;  ///< RMSNorm: added to the weights; 1 in Gemma, whose stored weights are around 0
};

/// torch.nn.LayerNorm over the last axis, or torch.nn.RMSNorm. Parameters: weight (E), bias (E).
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const LayerNormOptions& options);
  /// x and output (T, E) may be the same. Throws kShapeMismatch.
  void forward(ConstMatrixView x, MatrixView output) const;
  const LayerNormOptions& options() const { return options_; }
  /// (E), or null if there is none.
  const float* weight() const { return weight_.empty() ? nullptr : weight_.data(); }
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }

 private:
  std::vector<Parameter> ownParameters() override;

  LayerNormOptions options_;
  std::vector<float> weight_, bias_;
};

/// Multiplies feature e by weight_e (Touvron et al. 2021, arXiv:2103.17239). DINOv2 and DINOv3 apply it to the output
/// of each block. Parameter: weight (E).
class LayerScale : public Module {
 public:
  explicit LayerScale(Index num_features);
  /// x and output (T, E) may be the same. Throws kShapeMismatch.
  void forward(ConstMatrixView x, MatrixView output) const;
  const float* weight() const { return weight_.data(); }

 private:
  std::vector<Parameter> ownParameters() override;

  std::vector<float> weight_;
};

struct BatchNormOptions {
  Index num_features;
  float eps = 1e-5f;
  float momentum = 0.1f;  ///< the share of a batch in the moving averages, in training
};

/// torch.nn.BatchNorm1d in evaluation mode: normalizes each feature with the moving averages of training, gamma (x -
/// mean) / sqrt(variance + eps) + beta (Ioffe, Szegedy 2015, arXiv:1502.03167). Parameters: weight, bias; buffers:
/// running_mean, running_var; all (E).
class BatchNorm : public Module {
 public:
  explicit BatchNorm(const BatchNormOptions& options);
  /// x and output (T, E) may be the same. Throws kShapeMismatch.
  void forward(ConstMatrixView x, MatrixView output) const;
  const BatchNormOptions& options() const { return options_; }
  /// (E). Training updates the moving averages.
  const float* weight() const { return weight_.data(); }
  const float* bias() const { return bias_.data(); }
  float* runningMean() { return running_mean_.data(); }
  float* runningVar() { return running_var_.data(); }

 private:
  std::vector<Parameter> ownParameters() override;

  BatchNormOptions options_;
  std::vector<float> weight_, bias_, running_mean_, running_var_;
};

}  // namespace heed
