#pragma once

#include "heed/encoder_model.h"
#include "heed/linear.h"
#include "heed/norm.h"

namespace heed {

/// LN(h + phi(Dropout(W * x + b))), where * is a convolution along each sequence with zero padding: DeBERTa v2's
/// ConvLayer, which adds local context of the embeddings x to the first layer's output h.
///
/// Notation: T rows of all sequences, E width, K width of the convolution. Parameters: weight (E, E, K) and bias (E) as
/// in torch.nn.Conv1d, norm.*.
class EncoderModel::Convolution : public Module {
 public:
  explicit Convolution(const EncoderModelConfig& config);

  /// x and h (T, E); consumes h.
  Value forward(Evaluator& e, const Value& x, const Value& h, const Sequences& sequences);

  Linear& linear() { return linear_; }
  /// The dropout on the convolution's result, before phi. DeBERTa uses its hidden rate.
  Dropout& dropout() { return dropout_; }

 private:
  std::vector<Child> children() override { return {{"norm", &norm_}}; }
  std::vector<Parameter> ownParameters() override;

  Windows windows_;
  Activation activation_;
  Linear linear_;
  LayerNorm norm_;
  Dropout dropout_;
};

}  // namespace heed
