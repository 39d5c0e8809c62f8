#pragma once

#include "heed/attention.h"
#include "heed/linear.h"
#include "heed/positional_encoding.h"

namespace heed {

struct MultiHeadAttentionOptions {
  Index embed_dim;
  Index num_heads;
  Index key_dim = 0;          ///< Dk per head; 0: embed_dim / num_heads, which must then divide
  Index value_dim = 0;        ///< Dv per head; 0: as key_dim's default
  Index key_input_dim = 0;    ///< width of the key input (PyTorch's kdim); 0: embed_dim
  Index value_input_dim = 0;  ///< width of the value input (vdim); 0: embed_dim
  bool bias = true;
  Activation activation = Activation::kIdentity;  ///< phi on the Q, K and V projections
  float dropout = 0;                              ///< on the weights, in training
  Precision precision = Precision::kFloat32;
};

/// Options of one call, on top of those of the attention itself.
struct MultiHeadCallOptions : AttentionOptions {
  const Rotary* rotary = nullptr;  ///< turns the projected queries and keys
};

/// What a layer with attention writes.
struct MultiHeadOutput {
  MatrixView output;                          ///< (sum L_n, E)
  float* weights = nullptr;                   ///< null, or as AttentionOutput's
  const ConstMatrixView* residual = nullptr;  ///< (sum L_n, E), added to the output where given
};

/// MultiHead(Q, K, V) = [H_1 .. H_h] W^O (Vaswani et al. 2017, section 3.2.2). torch.nn.MultiheadAttention with
/// batch_first, plus Keras's free head widths.
///
/// Parameters where the key and value inputs are E wide and H Dk = H Dv = E: in_proj_weight (3E, E), in_proj_bias (3E);
/// otherwise q_proj_weight (H Dk, E), k_proj_weight (H Dk, key_input_dim), v_proj_weight (H Dv, value_input_dim),
/// in_proj_bias (2 H Dk + H Dv). Always out_proj.weight (E, H Dv), out_proj.bias (E).
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);

  /// query (sum L_n, E), key (sum S_n, key_input_dim), value (sum S_n, value_input_dim). For self-attention pass the
  /// same view as all three: it is then packed once.
  void forward(const AttentionInput& input, const MultiHeadCallOptions& options, const MultiHeadOutput& result,
               Context& context);

  /// The projections by themselves, for caches and inspection: q (rows, H Dk), k (rows, H Dk), v (rows, H Dv). Inputs
  /// that are one view are packed once.
  void project(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, MatrixView q, MatrixView k,
               MatrixView v, Context& context) const;
  void projectQuery(ConstMatrixView query, MatrixView q, Context& context) const;
  void projectKeyValue(ConstMatrixView key, ConstMatrixView value, MatrixView k, MatrixView v, Context& context) const;
  /// Attention over projected q, k, v (already rotated where that applies), then W^O.
  void attend(const AttentionInput& projected, const AttentionOptions& options, const MultiHeadOutput& result,
              Context& context);
  /// Rotates projected queries or keys in place, the first row of each sequence standing at `first_position`.
  void rotate(const Rotary& rotary, const Sequences& sequences, Index first_position, MatrixView x) const;

  const MultiHeadAttentionOptions& options() const { return options_; }  ///< with the defaults filled in

 private:
  std::vector<Child> children() override { return {{"", &dropout_}}; }
  std::vector<Parameter> ownParameters() override;

  MultiHeadAttentionOptions options_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
  Dropout dropout_;
};

}  // namespace heed
