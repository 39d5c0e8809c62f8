#pragma once

#include <array>

#include "heed/dropout.h"
#include "heed/linear.h"
#include "heed/value.h"

/// Notation: T rows, E width of the model, F width of the hidden layer.
namespace heed {

class Evaluator;

struct FeedForwardOptions {
  Index embed_dim = 0;         ///< E
  Index feed_forward_dim = 0;  ///< F
  Activation activation = Activation::kRelu;
  float dropout = 0;  ///< rate on the hidden layer, in training
  bool bias = true;
  bool gated = false;  ///< hidden layer phi(W_1a x) * (W_1b x) (Shazeer 2020, arXiv:2002.05202); linear1.weight is then
                       ///< (2F, E), the activated half first
  bool gate_second = false;  ///< gated: activate the second half instead of the first
  bool linear1_bias = true;  ///< false: no linear1.bias, whatever `bias` is
  Precision precision = Precision::kFloat32;
};

/// W_2 Dropout(phi(W_1 x + b_1)) + b_2 at every position. Parameters: linear1.weight (F, E), linear1.bias (F),
/// linear2.weight (E, F), linear2.bias (E).
class FeedForward : public Module {
 public:
  explicit FeedForward(const FeedForwardOptions& options);
  /// x and result (T, E). `residual` (T, E) is null, or is added to the result and consumed.
  Value forward(Evaluator& e, const Value& x, const Value* residual = nullptr);
  const FeedForwardOptions& options() const { return options_; }
  std::array<Linear*, 2> linears() { return {&linear1_, &linear2_}; }
  Dropout& dropout() { return dropout_; }

 private:
  std::vector<Child> children() override { return {{"linear1", &linear1_}, {"linear2", &linear2_}, {"", &dropout_}}; }

  FeedForwardOptions options_;
  Linear linear1_, linear2_;
  Dropout dropout_;
};

}  // namespace heed
