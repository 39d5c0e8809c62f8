#pragma once

#include "heed/dropout.h"
#include "heed/linear.h"

namespace heed {

struct FeedForwardOptions {
  Index embed_dim;         ///< E
  Index feed_forward_dim;  ///< F
  Activation activation = Activation::kRelu;
  float dropout = 0;
  bool bias = true;
  bool gated = false;  ///< phi(W_1a x) * (W_1b x) between the two products (Shazeer 2020, arXiv:2002.05202): linear1 is
                       ///< (2 F, E), the activated half first
  Precision precision = Precision::kFloat32;
};

/// W_2 Dropout(phi(W_1 x + b_1)) + b_2 at every position. Parameters linear1.{weight (F, E), bias}, linear2.{weight (E,
/// F), bias}.
class FeedForward : public Module {
 public:
  explicit FeedForward(const FeedForwardOptions& options);
  /// x, output (T, E); `residual` (T, E) is added where given (may be output itself).
  void forward(ConstMatrixView x, MatrixView output, Context& context, const ConstMatrixView* residual = nullptr);
  const FeedForwardOptions& options() const { return options_; }

 private:
  std::vector<Child> children() override { return {{"linear1", &linear1_}, {"linear2", &linear2_}, {"", &dropout_}}; }

  FeedForwardOptions options_;
  Linear linear1_, linear2_;
  Dropout dropout_;
};

}  // namespace heed
