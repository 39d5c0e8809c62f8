#pragma once

#include <memory>

#include "heed/activation.h"
#include "heed/context.h"
#include "heed/module.h"

namespace heed {

class PackedWeight;

/// The most inputs of a layer with int8 weights: as many products of 7 and 8 bits add up in 32 bits.
inline constexpr Index kMostInt8Inputs = 1 << 17;

struct LinearOptions {
  Index in_features;
  Index out_features;
  bool bias = true;
  Activation activation = Activation::kIdentity;
  Precision precision = Precision::kFloat32;
  bool lookup = false;  ///< rows are mostly read one by one, as an embedding's: int8 keeps its full range for them
};

/// The time-distributed layer z(x)_u = phi(w_0 + W x_u): the same weights at every position. torch.nn.Linear, followed
/// by phi. Parameters: weight (out, in), bias (out).
class Linear : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  ~Linear() override;
  Linear(Linear&&) noexcept;
  Linear& operator=(Linear&&) noexcept;

  /// x (T, in) -> output (T, out); with `residual` (T, out), output = phi(...) + residual (which may be output itself).
  void forward(ConstMatrixView x, MatrixView output, Context& context, const ConstMatrixView* residual = nullptr) const;

  const LinearOptions& options() const { return options_; }
  const PackedWeight& weight() const { return *weight_; }
  const float* bias() const { return options_.bias ? bias_.data() : nullptr; }
  /// The parameters alone, for modules that list them under names of their own: weight and, where there is one, bias.
  std::vector<Parameter> ownParameters() override;

 private:
  LinearOptions options_;
  std::unique_ptr<PackedWeight> weight_;
  std::vector<float> bias_;
};

/// x W^T + b with weights that the caller holds; `weight` (out, in), `bias` (out) or null. Packs the weight anew on
/// each call.
void linear(ConstMatrixView x, ConstMatrixView weight, const float* bias, Activation activation, MatrixView output,
            Context& context);

}  // namespace heed
