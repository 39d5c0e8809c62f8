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

// EmbeddingGemma2Model of transformers replaces them before it looks up the embeddings; EmbeddingGemma2TextModel does not.
test('EmbeddingGemma 2 reads the tokens of images, sounds and videos as padding', async () => {
  const heed = await load();
  const folder = `${root}embedding-gemma2`;
  const ids = (place: number) => ({ inputIds: [[3, place, 7, 9]] });
  using model = await heed.fromPretrained(folder);
  const padded = await model.encode(ids(0));
  for (const place of [258_880, 258_881, 258_884]) {
    const { lastHiddenState } = await model.encode(ids(place));
    expect([...lastHiddenState.data], `${place}`).toEqual([...padded.lastHiddenState.data]);
    expect([...(await model.embed(ids(place))).data]).toEqual([...(await model.embed(ids(0))).data]);
    expect((await model.tokenize(ids(place))).inputIds).toEqual([[3, place, 7, 9]]);
  }
  await expect(model.embed(ids(258_882))).rejects.toThrow('expected tokens with ids below 60');

  const files = Object.fromEntries(
    ['config.json', 'model.safetensors'].map((name) => [name, readFileSync(`${folder}/${name}`)]),
  );
  const config = { ...JSON.parse(String(files['config.json'])), image_token_id: 5 };
  config.text_config.pad_token_id = 4;
  using other = await heed.fromPretrained({ ...files, 'config.json': JSON.stringify(config) });
  expect([...(await other.embed(ids(5))).data]).toEqual([...(await model.embed(ids(4))).data]);
  expect(other.config.unread).toEqual([]);

  using text = await heed.fromPretrained(`${root}embedding-gemma2-text`);
  await expect(text.embed(ids(258_880))).rejects.toThrow('expected tokens with ids below 60');
});

test.each(['embedding-gemma2', 'embedding-gemma2-text'])('%s takes batches without tokens', async (name) => {
  const heed = await load();
  using model = await heed.fromPretrained(root + name);
  const none = await model.encode({ inputIds: [[]] }, { outputHiddenStates: true });
  expect(none.lastHiddenState.shape).toEqual([1, 0, model.config.embedDim]);
  expect(none.hiddenStates).toHaveLength(model.config.numLayers + 1);
  expect((await model.encode({ inputIds: [] })).lastHiddenState.shape[0]).toBe(0);
  const both = await model.encode({ inputIds: [[], [3, 7]] });
  const alone = await model.encode({ inputIds: [[3, 7]] });
  expect([...both.lastHiddenState.data].slice(2 * model.config.embedDim)).toEqual([...alone.lastHiddenState.data]);
});
