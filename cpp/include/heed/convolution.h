#pragma once

#include <vector>

#include "heed/evaluator.h"
#include "heed/linear.h"
#include "heed/module.h"

namespace heed {

struct ConvolutionOptions {
  Index in_channels;   ///< C, the width of the input
  Index out_channels;  ///< D, the width of the output
  Index groups = 1;    ///< G, a divisor of both: group g of the outputs sees only group g of the inputs
  bool bias = true;
  Windows windows;  ///< width K, stride, dilation and padding
};

/// Convolution along each sequence (torch.nn.Conv1d, with the channels last), without flipping the kernel:
/// y_ud = b_d + sum over c, k of w_dck x_(u stride + k dilation - before),c.
/// Notation: T rows of all sequences. Parameters: weight (D, C / G, K), bias (D).
class Convolution : public Module {
 public:
  explicit Convolution(const ConvolutionOptions& options);
  /// x (T, C); result (windowSequences().totalRows(), D). Throws kShapeMismatch for a sequence shorter than a window.
  Value forward(Evaluator& e, const Value& x, const Sequences& sequences) const;
  const ConvolutionOptions& options() const { return options_; }

 private:
  std::vector<Parameter> ownParameters() override;

  ConvolutionOptions options_;
  std::vector<Linear> groups_;  // each maps the windows of its channels to its outputs
};

}  // namespace heed
