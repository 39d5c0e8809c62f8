#pragma once

#include "heed/attention.h"
#include "heed/evaluator.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "heed/positional_encoding.h"

/// Notation: L_n queries and S_n keys of sequence n, E width of the model, H heads, Hk heads of keys and values, Dk and
/// Dv width of one head's keys and values.
namespace heed {

struct MultiHeadAttentionOptions {
  Index embed_dim = 0;        ///< E
  Index num_heads = 0;        ///< H
  Index key_value_heads = 0;  ///< Hk, a divisor of H; 0: H. Fewer: grouped-query attention, see AttentionOptions
  Index key_dim = 0;          ///< Dk; 0: E / H, which must be an integer
  Index value_dim = 0;        ///< Dv; 0: E / H, which must be an integer
  Index key_input_dim = 0;    ///< width of the key input (PyTorch's kdim); 0: E
  Index value_input_dim = 0;  ///< width of the value input (vdim); 0: E
  bool bias = true;
  /// Applied to the projected queries, keys and values.
  Activation query_activation = Activation::kIdentity;
  Activation key_activation = Activation::kIdentity;
  Activation value_activation = Activation::kIdentity;
  bool qk_norm = false;        ///< norms over the projected queries and keys of each head, before rotation (Qwen3)
  bool joint_qk_norm = false;  ///< the same over all heads together, which requires Hk = H (JinaBERT)
  LayerNormOptions norm = {};  ///< of these norms; the width is set by the layer
  bool value_norm = false;     ///< RMSNorm without weights over the projected values of each head (EmbeddingGemma 2)
  bool position_projections = false;  ///< separate projections for PK and PQ of DisentangledPositions, instead of
                                      ///< those of keys and queries
  bool content_to_position = true;    ///< whether DisentangledPositions have the term with PK
  bool position_to_content = true;    ///< whether DisentangledPositions have the term with PQ
  float dropout = 0;                  ///< rate on the attention weights, in training
  Precision precision = Precision::kFloat32;
};

/// MultiHead(Q, K, V) = [H_1 .. H_h] W^O (Vaswani et al. 2017, section 3.2.2): torch.nn.MultiheadAttention with
/// batch_first, plus independent head widths as in Keras.
///
/// Parameters if the key and value inputs have width E and H Dk = Hk Dk = Hk Dv = E: in_proj_weight (3E, E),
/// in_proj_bias (3E); otherwise q_proj_weight (H Dk, E), k_proj_weight (Hk Dk, key_input_dim), v_proj_weight (Hk Dv,
/// value_input_dim), in_proj_bias (H Dk + Hk Dk + Hk Dv). Always out_proj.weight (E, H Dv), out_proj.bias (E). With
/// qk_norm or joint_qk_norm: q_norm.*, k_norm.*. With position_projections: pos_key_proj.*, pos_query_proj.* (H Dk, E),
/// those of the terms that there are.
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);

  /// query (sum L_n, E), key (sum S_n, key_input_dim), value (sum S_n, value_input_dim); result (sum L_n, E). For
  /// self-attention, pass the same value as all three; it is then packed only once. `weights` is null or as in
  /// AttentionOutput; `residual` (sum L_n, E) is null, or is added to the result and consumed. Throws kShapeMismatch.
  Value forward(Evaluator& e, const AttentionInput& input, const AttentionOptions& options, float* weights = nullptr,
                const Value* residual = nullptr);

  /// The projected inputs, normalized but not rotated: q (rows, H Dk), k (rows, Hk Dk), v (rows, Hk Dv).
  struct Projections {
    Value query, key, value;
  };
  Projections project(Evaluator& e, const Value& query, const Value& key, const Value& value) const;
  /// Projects key and value only, for caches; the query of the result is empty.
  Projections projectKeyValue(Evaluator& e, const Value& key, const Value& value) const;
  /// Projects the query only.
  Value projectQuery(Evaluator& e, const Value& query) const;
  /// Attention over projected (and, if applicable, rotated) q, k and v, then the output projection W^O.
  Value attend(Evaluator& e, const AttentionInput& projected, const AttentionOptions& options, float* weights,
               const Value* residual);
  /// Sets positions.key and positions.query to the projections of positions.embeddings.
  void projectPositions(Evaluator& e, DisentangledPositions& positions) const;

  /// Whether a linear layer that projects relative positions has a decorator.
  bool decoratesPositions() const;

  const MultiHeadAttentionOptions& options() const { return options_; }  ///< with defaults filled in
  /// All projections.
  std::vector<Linear*> linears();
  Dropout& dropout() { return dropout_; }

 private:
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;

  MultiHeadAttentionOptions options_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
  std::optional<Linear> pos_key_proj_, pos_query_proj_;
  std::optional<LayerNorm> q_norm_, k_norm_, v_norm_;
  Dropout dropout_;
};

}  // namespace heed
