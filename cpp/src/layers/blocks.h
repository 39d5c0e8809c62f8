#pragma once

#include "heed/encoder.h"

/// What encoder and decoder layers are made of.
namespace heed {

inline MultiHeadAttentionOptions attentionOptions(const EncoderLayerOptions& o) {
  return {.embed_dim = o.embed_dim,
          .num_heads = o.num_heads,
          .key_dim = o.key_dim,
          .value_dim = o.value_dim,
          .bias = o.bias,
          .dropout = o.dropout,
          .precision = o.precision};
}

inline FeedForwardOptions feedForwardOptions(const EncoderLayerOptions& o) {
  return {.embed_dim = o.embed_dim,
          .feed_forward_dim = o.feed_forward_dim,
          .activation = o.activation,
          .dropout = o.dropout,
          .bias = o.bias,
          .gated = o.gated,
          .precision = o.precision};
}

inline LayerNormOptions normOptions(const EncoderLayerOptions& o) {
  return {.normalized_shape = o.embed_dim, .eps = o.eps, .elementwise_affine = true, .bias = o.norm_bias};
}

/// How a block of an encoder or decoder layer is joined to what it works on.
class Residual {
 public:
  /// `norm` null: none.
  Residual(const LayerNorm* norm, bool norm_first, Dropout& dropout)
      : norm_(norm), norm_first_(norm_first), dropout_(dropout) {}

  /// Post-norm: output = LN(x + Dropout(f(x))). Pre-norm: output = x + Dropout(f(LN(x))). x and output (T, E) may be
  /// the same. `f(in, out, plus)` writes f(in) + plus to out, where plus is a matrix or null; in, plus and out may be
  /// the same.
  template <class F>
  void operator()(ConstMatrixView x, const F& f, MatrixView output, Arena& arena) const {
    const Arena::Scope scope(arena);
    const ConstMatrixView in = norm_ && norm_first_ ? normed(x, arena) : x;
    if (dropout_.active()) {
      const MatrixView y = arena.matrix(x.rows(), x.cols());
      f(in, y, static_cast<const ConstMatrixView*>(nullptr));
      dropout_.forward(readOnly(y), y);
      output = x + y;
    } else {
      f(in, output, &x);  // the block's last product adds x on its way to memory
    }
    if (norm_ && !norm_first_) norm_->forward(readOnly(output), output);
  }

 private:
  ConstMatrixView normed(ConstMatrixView x, Arena& arena) const {
    const MatrixView y = arena.matrix(x.rows(), x.cols());
    norm_->forward(x, y);
    return readOnly(y);
  }

  const LayerNorm* norm_;
  bool norm_first_;
  Dropout& dropout_;
};

}  // namespace heed
