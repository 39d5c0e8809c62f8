#pragma once

#include <memory>
#include <span>

#include "heed/activation.h"
#include "heed/context.h"
#include "heed/module.h"
#include "heed/value.h"

namespace heed {

class Evaluator;
class Linear;
class PackedWeight;

/// The maximum number of inputs of a layer with int8 weights: the sum of this many products of 7-bit and 8-bit values
/// fits into 32 bits.
inline constexpr Index kMaxInt8Inputs = 1 << 17;

struct LinearOptions {
  Index in_features;
  Index out_features;
  bool bias = true;
  Activation activation = Activation::kIdentity;
  Precision precision = Precision::kFloat32;
  bool lookup = false;  ///< int8: quantize rows to the full range; for embedding tables, whose rows are mostly read
                        ///< one by one
};

/// Replaces the forward pass of a linear layer, for example to add a LoRA adapter.
class LinearDecorator {
 public:
  /// As Linear::forward().
  virtual Value forward(Evaluator& e, const Linear& layer, const Value& x, const Value* residual,
                        bool consumes_x) const = 0;

 protected:
  ~LinearDecorator() = default;
  /// What follows after phi's argument y, which is consumed: phi and the residual, as in Linear::forward().
  static Value finish(Evaluator& e, const Linear& layer, const Value& y, const Value& x, const Value* residual,
                      bool consumes_x);
};

/// torch.nn.Linear followed by an activation phi, applied at every position u: z(x)_u = phi(w_0 + W x_u). Parameters:
/// weight (out, in), bias (out). T is the number of rows.
///
/// In fp32, products are summed in blocks of 512, so that the error of W x_u is at most
/// (min(in, 512) + in / 512 + 1) 2^-24 |W| |x_u|.
class Linear : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  ~Linear() override;
  Linear(Linear&&) noexcept;
  Linear& operator=(Linear&&) noexcept;

  /// x (T, in), result (T, out). `residual` (T, out) is null, or is added after phi and consumed; x is consumed if
  /// `consumes_x`. Throws kShapeMismatch.
  Value forward(Evaluator& e, const Value& x, const Value* residual = nullptr, bool consumes_x = false) const;
  /// Sets or, with null, removes the decorator. It must exist while it is set.
  void setDecorator(const LinearDecorator* decorator) { decorator_ = decorator; }
  const LinearDecorator* decorator() const { return decorator_; }

  const LinearOptions& options() const { return options_; }
  const PackedWeight& weight() const { return *weight_; }
  const float* bias() const { return options_.bias ? bias_.data() : nullptr; }
  /// The weight and, with LinearOptions::bias, the bias. Public for modules that list them under other names.
  std::vector<Parameter> ownParameters() override;

 private:
  LinearOptions options_;
  std::unique_ptr<PackedWeight> weight_;
  std::vector<float> bias_;
  const LinearDecorator* decorator_ = nullptr;
};

/// Applies several layers to one input, which is packed only once. results[i] is the output of layers[i].
void forwardAll(Evaluator& e, std::span<const Linear* const> layers, const Value& x, Value* results);

/// output (T, out) = phi(x W^T + b) with the caller's `weight` (out, in) and `bias` (out) or null. Packs the weight on
/// every call. Throws kShapeMismatch.
void linear(ConstMatrixView x, ConstMatrixView weight, const float* bias, Activation activation, MatrixView output,
            Context& context);

}  // namespace heed
