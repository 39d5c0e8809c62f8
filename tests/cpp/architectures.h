#pragma once

#include <vector>

#include "heed/encoder_model.h"

/// Configurations of encoders for tests.
namespace heed::test {

inline EncoderModelConfig tinyConfig() {
  EncoderModelConfig config{};
  config.vocab_size = 23;
  config.layer.embed_dim = 12;
  config.num_layers = 3;
  config.layer.attention.num_heads = 3;
  config.layer.feed_forward.feed_forward_dim = 10;
  config.max_positions = 9;
  config.type_vocab_size = 2;
  return config;
}

/// `tiny` and variants of it, with the layers and positions of all families of text encoders.
inline std::vector<EncoderModelConfig> architectures(const EncoderModelConfig& tiny) {
  const Index head_dim = tiny.layer.embed_dim / tiny.layer.attention.num_heads;
  EncoderModelConfig rotary = tiny;
  rotary.positions = Positions::kRotary;
  rotary.rotary_dim = head_dim;
  rotary.local_rotary_base = 100;
  rotary.window = 2;
  rotary.local_layers = {false, true, true};
  rotary.layer.norm_first = rotary.final_norm = rotary.layer.feed_forward.gated = true;
  rotary.layer.bias = rotary.layer.norm.bias = rotary.first_attention_norm = false;
  EncoderModelConfig relative = tiny;
  relative.positions = Positions::kRelative;
  relative.relative_buckets = 8;
  relative.relative_distance = 16;
  // As UMT5.
  EncoderModelConfig own_biases = relative;
  own_biases.relative_per_layer = own_biases.layer.norm_first = own_biases.final_norm = true;
  own_biases.layer.norm.rms = own_biases.layer.feed_forward.gated = true;
  own_biases.layer.bias = own_biases.layer.norm.bias = own_biases.embedding_norm = false;
  own_biases.layer.attention.key_dim = 5;
  own_biases.attention_scale = 1;
  relative.position_embeddings = true;  // as MPNet
  EncoderModelConfig factored = tiny;
  factored.embedding_dim = 5;
  factored.shared_layers = true;
  // As Qwen3 and Gemma 3.
  EncoderModelConfig grouped = rotary;
  grouped.layer.attention.num_heads = 4;
  grouped.layer.attention.key_value_heads = 2;
  grouped.layer.attention.key_dim = head_dim + 1;
  grouped.layer.norm.rms = grouped.layer.attention.qk_norm = grouped.layer.output_norms = true;
  grouped.layer.norm.weight_offset = 1;
  grouped.embedding_scale = 2;
  grouped.rotary_scale = 0.5;
  EncoderModelConfig causal = grouped;
  causal.causal = causal.first_attention_norm = true;
  causal.embedding_norm = false;
  causal.attention_scale = 0.3f;
  // As EmbeddingGemma 2: other heads in local layers, explicit angles, a signal per layer, a projection at the end.
  EncoderModelConfig signals = rotary;
  signals.layer.attention.num_heads = 4;
  signals.layer.attention.key_value_heads = 1;
  signals.layer.attention.key_dim = 6;
  signals.local_key_value_heads = 2;
  signals.local_head_dim = 4;
  signals.rotary_frequencies = {1, 0.1, 0};
  signals.local_rotary_frequencies = {0.5, 0.25};
  signals.rotary_factor = 1.5;
  signals.layer.norm.rms = signals.layer.attention.qk_norm = signals.layer.attention.value_norm =
      signals.layer.output_norms = signals.first_attention_norm = true;
  signals.embedding_norm = false;
  signals.attention_scale = 1;
  signals.layer_input_dim = 5;
  signals.output_dim = 7;
  EncoderModelConfig alibi = tiny;
  alibi.positions = Positions::kAlibi;
  alibi.layer.feed_forward.gated = alibi.layer.feed_forward.gate_second = true;
  alibi.layer.feed_forward.linear1_bias = false;
  EncoderModelConfig disentangled = tiny;
  disentangled.positions = Positions::kDisentangled;
  disentangled.relative_buckets = 4;
  disentangled.relative_distance = tiny.max_positions;
  disentangled.relative_norm = true;
  disentangled.attention_scale = 0.2f;
  EncoderModelConfig convolved = disentangled;
  convolved.position_embeddings = convolved.layer.attention.position_projections = true;
  convolved.convolution = 5;
  EncoderModelConfig nested = alibi;
  nested.layer.attention.joint_qk_norm = nested.layer.nested_norm = true;
  EncoderModelConfig content = disentangled;  // content to position only
  content.layer.attention.position_to_content = false;
  EncoderModelConfig place = convolved;  // position to content only
  place.layer.attention.content_to_position = false;
  place.relative_distance = 0;
  place.embedding_dim = 5;
  place.projection_first = true;
  EncoderModelConfig absolute = disentangled;
  absolute.relative_buckets = 0;
  absolute.relative_norm = false;
  absolute.position_embeddings = true;
  EncoderModelConfig interleaved = tiny;
  interleaved.positions = Positions::kRotary;
  interleaved.rotary_dim = 4;
  interleaved.rotary_interleaved = interleaved.rotary_values = true;
  EncoderModelConfig tasks = tiny;
  tasks.task_vocab_size = 2;
  return {tiny,         rotary,    relative, own_biases, factored, grouped,  causal,      signals, alibi,
          disentangled, convolved, nested,   content,    place,    absolute, interleaved, tasks};
}

}  // namespace heed::test
