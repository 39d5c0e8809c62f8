/** Variants of the families that heed does not run are refused by name, rather than run wrongly. */
import { load } from 'heed';
import { expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const cases: [string, Record<string, unknown>, RegExp][] = [
  ['albert', { num_hidden_groups: 2 }, /num_hidden_groups/],
  ['albert', { inner_group_num: 2 }, /inner_group_num/],
  ['modernbert', { mlp_bias: true }, /mlp_bias: expected false, as attention_bias, got true/],
  ['modernbert', { layer_types: ['full_attention', 'full_attention', 'sliding_attention'] }, /irregular/],
  ['modernbert', { layer_types: 'full_attention' }, /layer_types/],
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
