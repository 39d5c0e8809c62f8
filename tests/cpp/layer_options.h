#pragma once

#include "heed/encoder.h"

namespace heed::test {

/// The options of encoder and decoder layers that tests change, in one list.
struct LayerOptions {
  Index embed_dim, num_heads, feed_forward_dim;
  Index key_dim = 0, value_dim = 0, key_value_heads = 0;
  Activation activation = Activation::kRelu;
  bool norm_first = false;
  float eps = 1e-5f, dropout = 0.1f;
  bool bias = true, norm_bias = true, gated = false, gate_second = false, linear1_bias = true;
  bool attention_norm = true, output_norms = false, layer_scale = false, rms_norm = false;
  float norm_weight_offset = 0;
  bool qk_norm = false, joint_qk_norm = false, nested_norm = false, position_projections = false;
  Precision precision = Precision::kFloat32;

  operator EncoderLayerOptions() const {  // NOLINT(google-explicit-constructor)
    return {.embed_dim = embed_dim,
            .bias = bias,
            .dropout = dropout,
            .attention = {.num_heads = num_heads,
                          .key_value_heads = key_value_heads,
                          .key_dim = key_dim,
                          .value_dim = value_dim,
                          .qk_norm = qk_norm,
                          .joint_qk_norm = joint_qk_norm,
                          .position_projections = position_projections},
            .feed_forward = {.feed_forward_dim = feed_forward_dim,
                             .activation = activation,
                             .gated = gated,
                             .gate_second = gate_second,
                             .linear1_bias = linear1_bias},
            .norm = {.eps = eps, .bias = norm_bias, .rms = rms_norm, .weight_offset = norm_weight_offset},
            .norm_first = norm_first,
            .attention_norm = attention_norm,
            .output_norms = output_norms,
            .layer_scale = layer_scale,
            .nested_norm = nested_norm,
            .precision = precision};
  }
};

}  // namespace heed::test
