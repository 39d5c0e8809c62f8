#pragma once

#include "core/row_parts.h"
#include "heed/encoder.h"

/// Shared by encoder and decoder layers: the options of their parts, and the residual connection around each block.
namespace heed {

/// `Options`: of a layer or a model.
template <class Options>
LayerNormOptions normOptions(const Options& o, Index width) {
  return {.normalized_shape = width,
          .eps = o.eps,
          .elementwise_affine = true,
          .bias = o.norm_bias,
          .rms = o.rms_norm,
          .weight_offset = o.norm_weight_offset};
}

inline LayerNormOptions normOptions(const EncoderLayerOptions& o) { return normOptions(o, o.embed_dim); }

inline MultiHeadAttentionOptions attentionOptions(const EncoderLayerOptions& o) {
  return {.embed_dim = o.embed_dim,
          .num_heads = o.num_heads,
          .key_value_heads = o.key_value_heads,
          .key_dim = o.key_dim,
          .value_dim = o.value_dim,
          .bias = o.bias,
          .qk_norm = o.qk_norm || o.joint_qk_norm
                         ? std::optional(normOptions(o, (o.joint_qk_norm ? o.num_heads : 1) * o.headWidth()))
                         : std::nullopt,
          .position_projections = o.position_projections,
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
          .gate_second = o.gate_second,
          .linear1_bias = o.linear1_bias,
          .precision = o.precision};
}

/// A block f with residual connection, norm and dropout.
///
/// Post-norm: output = LN(x + Dropout(f(x))). Pre-norm: output = x + Dropout(f(LN(x))). `norm` may be null, and so may
/// `output_norm`, which follows f. x and output (T, E) may be the same. `block(in, out, residual)` must write f(in) +
/// residual to out, where residual is a matrix or null; in, residual and out may be the same.
template <class Block>
void residualBlock(const LayerNorm* norm, const LayerNorm* output_norm, bool norm_first, Dropout& dropout,
                   ConstMatrixView x, MatrixView output, Context& context, const Block& block) {
  const Arena::Scope scope(context.arena);
  const auto normalize = [&](const LayerNorm& with, ConstMatrixView from, MatrixView to) {
    forRowParts(from.rows(), from.cols(), context,
                [&](Index begin, Index end) { with.forward(rowsOf(from, begin, end), rowsOf(to, begin, end)); });
  };
  const auto normed = [&] {
    const MatrixView y = context.arena.matrix(x.rows(), x.cols());
    normalize(*norm, x, y);
    return readOnly(y);
  };
  const ConstMatrixView in = norm && norm_first ? normed() : x;
  if (dropout.active() || output_norm) {
    const MatrixView y = context.arena.matrix(x.rows(), x.cols());
    block(in, y, static_cast<const ConstMatrixView*>(nullptr));
    if (output_norm) normalize(*output_norm, readOnly(y), y);
    dropout.forward(readOnly(y), y, context);
    output = x + y;
  } else {
    block(in, output, &x);  // the last product of the block adds x, which saves a pass over memory
  }
  if (norm && !norm_first) normalize(*norm, readOnly(output), output);
}

}  // namespace heed
