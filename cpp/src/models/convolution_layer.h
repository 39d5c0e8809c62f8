#pragma once

#include "heed/encoder_model.h"
#include "heed/linear.h"
#include "heed/norm.h"

namespace heed {

/// LN(h + phi(W * x + b)), where * is a convolution along each sequence with zero padding: DeBERTa v2's ConvLayer,
/// which adds local context of the embeddings x to the first layer's output h.
///
/// Notation: T rows of all sequences, E width, K width of the convolution. Parameters: weight (E, E, K) and bias (E),
/// as of torch.nn.Conv1d, norm.*.
class EncoderModel::Convolution : public Module {
 public:
  explicit Convolution(const EncoderModelConfig& config);

  /// x and hidden (T, E); writes the output to hidden.
  void forward(ConstMatrixView x, const Sequences& sequences, MatrixView hidden, Context& context) const;

  /// The product with windows of x, see ops/windows.h.
  const Linear& linear() const { return linear_; }
  const LayerNorm& norm() const { return norm_; }
  Index width() const { return width_; }
  Activation activation() const { return activation_; }

 private:
  std::vector<Child> children() override { return {{"norm", &norm_}}; }
  std::vector<Parameter> ownParameters() override;

  Index width_;  // K
  Activation activation_;
  Linear linear_;
  LayerNorm norm_;
};

}  // namespace heed
