#pragma once

#include "heed/encoder.h"
#include "heed/evaluator.h"

/// Shared by encoder and decoder layers: the options of their parts, and the residual connection around each block.
namespace heed {

inline LayerNormOptions normOptions(const EncoderLayerOptions& o, Index width) {
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

/// The operations between a block and its residual connection. Optional parts may be null.
struct BlockOutput {
  Dropout& dropout;
  Site site;  // read and edited after norm and scale, before dropout
  const LayerNorm* norm = nullptr;
  const LayerScale* scale = nullptr;
};

/// The address of an optional's value, or null.
template <class T>
const T* addressOf(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

/// A block f with residual connection, norm and dropout. g is f followed by output.norm and output.scale.
///
/// Post-norm: LN(x + Dropout(g(x))). Pre-norm: x + Dropout(g(LN(x))). `norm` may be null. Consumes x (T, E).
/// `block(in, residual)` must return f(in), plus *residual unless that is null.
template <class Block>
Value residualBlock(Evaluator& e, const LayerNorm* norm, bool norm_first, const BlockOutput& output, const Value& x,
                    const Block& block) {
  Evaluator::Scope scope(e);
  const Value in = norm && norm_first ? e.normalize(*norm, x) : x;
  Value sum;
  if (output.dropout.active() || output.norm || output.scale || e.touches(output.site)) {
    Value y = block(in, static_cast<const Value*>(nullptr));
    if (output.norm) y = e.normalize(*output.norm, y, true);
    if (output.scale) y = e.scaleColumns(*output.scale, y);
    y = e.at(output.site, y);
    sum = e.add(x, output.dropout.forward(e, y));
  } else {
    sum = block(in, &x);  // the block's last product adds x, which saves a pass over memory
  }
  return scope.leave(norm && !norm_first ? e.normalize(*norm, sum, true) : sum);
}

}  // namespace heed
