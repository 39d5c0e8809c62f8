/** Unsupported variants of the families cause an error that names the setting, instead of wrong results. */
import { load } from 'heed';
import { expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const cases: [string, Record<string, unknown>, RegExp][] = [
  ['albert', { num_hidden_groups: 2 }, /num_hidden_groups/],
  ['albert', { inner_group_num: 2 }, /inner_group_num/],
  ['modernbert', { mlp_bias: true }, /too few rows of 6, among them 'layers.0.mlp.Wi.bias'/],
  ['modernbert', { layer_types: ['full_attention', 'linear_attention', 'sliding_attention'] }, /layer_types: expected/],
  ['modernbert', { layer_types: ['full_attention'] }, /layer_types: expected a list of 3 entries/],
  ['modernbert', { layer_types: 'full_attention' }, /layer_types/],
  ['qwen3', { attention_bias: true }, /too few rows of .*'layers.0.self_attn.q_proj.bias'/],
  ['qwen3', { layer_types: Array(3).fill('sliding_attention') }, /use_sliding_window: expected true, .*, got false/],
  [
    'qwen3',
    { rope_scaling: { rope_type: 'longrope', factor: 4 } },
    /rope_scaling: rope_type: expected one of .*yarn.*, got 'longrope'/,
  ],
  [
    'qwen3',
    { rope_parameters: { rope_type: 'axial', rope_theta: 1e6 } },
    /rope_parameters: rope_type: expected one of .*, got 'axial'/,
  ],
  ['qwen3', { num_key_value_heads: 3 }, /num_key_value_heads: expected a divisor of num_attention_heads \(4\), got 3/],
  ['qwen3', { head_dim: 9 }, /head_dim: expected a value for an even number of rotated columns/],
  [
    'qwen3',
    { head_dim: 8 },
    /self_attn.q_proj.weight': expected \[32, 24\], as config.json says, got shape \[40, 24\]/,
  ],
  ['qwen3', { num_key_value_heads: 1 }, /self_attn.k_proj.weight': expected \[10, 24\]/],
  ['gemma3_text', { use_bidirectional_attention: false }, /use_bidirectional_attention: expected true/],
  ['gemma3_text', { attn_logit_softcapping: 50 }, /attn_logit_softcapping: expected null, as .*, got 50/],
  [
    'jina-bert-v2',
    { feed_forward_type: 'original' },
    /feed_forward_type: expected one of geglu, reglu, got 'original'/,
  ],
  ['jina-bert-v2', { position_embedding_type: 'relative_key' }, /position_embedding_type/],
  ['deberta-v2', { attention_head_size: 5 }, /attention_head_size: expected \d+/],
  ['deberta-v2', { share_att_key: false }, /pos_key_proj/],
  ['deberta-v2', { position_biased_input: true }, /position_embeddings/],
  ['deberta-v2', { conv_kernel_size: 3 }, /encoder\.conv/],
  ['deberta-v2-convolution', { conv_kernel_size: 5 }, /conv\.weight': expected \[24, 24, 5\]/],
  ['deberta-v2-convolution', { conv_kernel_size: 4 }, /conv_kernel_size: expected 0, or an odd width up to 63, got 4/],
  ['deberta-v2-convolution', { conv_groups: 2 }, /conv_groups/],
  [
    'deberta-v2-convolution',
    { conv_act: 'prelu' },
    /conv_act: expected one of .*, got 'prelu', whose slope is a parameter/,
  ],
  ['deberta-v2', { embedding_size: 12 }, /word_embeddings/],
  ['deberta-v2', { position_buckets: 9 }, /rel_embeddings|too few rows/],
  ['deberta-v2', { position_buckets: 60, max_relative_positions: 20 }, /position_buckets: expected 0, or from 2/],
  ['new', { position_embedding_type: 'absolute' }, /position_embedding_type: expected 'rope', got 'absolute'/],
  ['new', { layer_norm_type: 'rms_norm' }, /layer_norm_type/],
  ['new', { logn_attention_scale: true }, /logn_attention_scale/],
  ['new', { rope_scaling: { type: 'longrope', factor: 2 } }, /rope_scaling: type: expected one of .*, got 'longrope'/],
  ['new', { rope_scaling: { type: 'ntk', factor: 2, mixed_b: 0.6 } }, /mixed_b/],
  ['new', { rope_scaling: { type: 'ntk', factor: -2 } }, /factor: expected a finite number above 0, got -2/],
  ['bert', { is_decoder: true, add_cross_attention: true }, /add_cross_attention: expected false/],
  ['bert', { hidden_act: 'xielu' }, /hidden_act: expected one of .*, got 'xielu', whose factors are parameters/],
  ['bert', { model_type: 'lfm2' }, /model_type: expected .* short convolutions/],
  ['bert', { model_type: 'deberta' }, /in_proj/],
  ['bert', { model_type: 'longformer' }, /global tokens/],
  ['bert', { model_type: 'qwen' }, /nearest: 'qwen3'/],
  ['bert', { model_type: 'modern_bert' }, /nearest: 'modernbert'/],
  ['nomic_bert', { prenorm: true }, /expected the layout of nomic-embed-text, got prenorm/],
  ['nomic_bert', { rotary_emb_interleaved: true }, /rotary_emb_interleaved/],
  ['nomic_bert', { causal: true }, /causal/],
  ['nomic_bert', { rotary_scaling_factor: 2 }, /rotary_scaling_factor/],
  ['nomic_bert', { num_experts: 8 }, /num_experts/],
];

test.each(cases)('%s with %o', async (family, change, message) => {
  const heed = await load();
  const files = tinyModel(family);
  const bytes = files['config.json']!;
  const config = JSON.parse(typeof bytes === 'string' ? bytes : new TextDecoder().decode(bytes));
  const changed = { ...files, 'config.json': JSON.stringify({ ...config, ...change }) };
  await expect(heed.fromPretrained(changed)).rejects.toMatchObject({
    name: 'HeedError',
    code: expect.stringMatching(/^(UNSUPPORTED|INVALID_FILE)$/),
    message: expect.stringMatching(message),
  });
});
