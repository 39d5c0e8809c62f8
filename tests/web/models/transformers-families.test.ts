/** Checkpoints that transformers made and ran (tests/fixtures/families/generate.py). */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import type { TokenIds } from '../../../web/src/models/input.js';
import { expectClose, readSafetensors } from './fixtures.js';

const root = fileURLToPath(new URL('../../fixtures/families/', import.meta.url));
const folders = readdirSync(root, { withFileTypes: true }).filter(
  (entry) => entry.isDirectory() && entry.name !== 'heads',
);

describe.each(folders.map(({ name }) => name))('%s', (name) => {
  const folder = root + name;
  const input = JSON.parse(readFileSync(`${folder}/input.json`, 'utf8')) as TokenIds;
  const expected = readSafetensors(`${folder}/expected.safetensors`);

  test("gives transformers' hidden states, attentions and pooler output", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const out = await model.encode(input, { outputAttentions: true, outputHiddenStates: true });
    expect(out.hiddenStates).toHaveLength(model.config.numLayers + 1);
    out.hiddenStates!.forEach((state, i) => {
      expectClose(state, expected.get(`hidden_states.${i}`), `hidden state ${i}`);
    });
    out.attentions!.forEach((weights, i) => {
      expectClose(weights, expected.get(`attentions.${i}`), `attention ${i}`);
    });
    expect(out.poolerOutput === undefined).toBe(!expected.has('pooler'));
    if (out.poolerOutput) expectClose(out.poolerOutput, expected.get('pooler'), 'pooler output');
  });

  test("gives transformers' pooled vectors", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    expectClose(await model.embed(input, { pooling: 'mean', normalize: true }), expected.get('mean'), 'mean');
    expectClose(await model.embed(input, { pooling: 'cls', normalize: false }), expected.get('cls'), 'cls');
    expectClose(await model.embed(input, { pooling: 'max', normalize: false }), expected.get('max'), 'max');
  });
});
