/** Checkpoints with heads that transformers made and ran (tests/fixtures/families/heads.py). */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import type { TokenIds } from '../../../web/src/models/input.js';
import { expectClose, readSafetensors, storedTensors } from './fixtures.js';
import { tinyModel } from './tiny.js';

const root = fileURLToPath(new URL('../../fixtures/families/heads/', import.meta.url));
const heed = await load();

describe.each(readdirSync(root))('%s', (name) => {
  const folder = root + name;
  const input = JSON.parse(readFileSync(`${folder}/input.json`, 'utf8')) as TokenIds;
  const expected = readSafetensors(`${folder}/expected.safetensors`);

  test.each(['sequence-classification', 'token-classification', 'question-answering'] as const)(
    "%s gives transformers' logits",
    async (head) => {
      using model = await heed.fromPretrained(folder);
      expectClose((await model.predict(head, input)).logits, expected.get(head), head);
    },
  );

  test("fill-mask gives transformers' logits", async () => {
    using model = await heed.fromPretrained(tinyModel(`../families/heads/${name}`));
    const { logits, masks } = await model.predict('fill-mask', input);
    expect(masks).toEqual([
      [0, 2],
      [2, 5],
    ]);
    const all = expected.get('fill-mask')!;
    const [, width, words] = all.shape as [number, number, number];
    const rows = masks.flatMap(([n, i]) => [
      ...all.data.subarray((n * width + i) * words, (n * width + i + 1) * words),
    ]);
    expectClose(logits, { data: Float32Array.from(rows), shape: [2, words] }, 'fill-mask');
  });
});

// transformers 5 does not tie a decoder whose own values are in the file; see `tie_weights` of modeling_utils.py.
test.each([
  ['ernie', 'cls.predictions.decoder.weight', 'ernie.embeddings.word_embeddings.weight'],
  ['data2vec-text', 'lm_head.decoder.weight', 'data2vec_text.embeddings.word_embeddings.weight'],
])('%s: a decoder beside tied embeddings', async (name, decoder, words) => {
  const input = JSON.parse(readFileSync(`${root}${name}/input.json`, 'utf8')) as TokenIds;
  const files = tinyModel(`../families/heads/${name}`);
  const tensors = storedTensors(files['model.safetensors'] as Uint8Array);
  const table = tensors.find((tensor) => tensor.name === words)!;
  const withDecoder = (data: Uint8Array, settings = {}) => {
    const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
    const all = [...tensors.filter((tensor) => tensor.name !== decoder), { ...table, name: decoder, data }];
    return {
      ...files,
      'config.json': new TextEncoder().encode(JSON.stringify({ ...config, ...settings })),
      'model.safetensors': writeSafetensors(all.sort((a, b) => (a.name < b.name ? -1 : 1))),
    };
  };
  const other = Float32Array.from(new Float32Array(table.data.slice().buffer), (value) => value / 2);
  const differing = new Uint8Array(other.buffer);
  using tied = await heed.fromPretrained(withDecoder(table.data));
  const { logits } = await tied.predict('fill-mask', input);
  using model = await heed.fromPretrained(withDecoder(differing));
  expectClose((await model.encode(input)).lastHiddenState, (await tied.encode(input)).lastHiddenState, name);
  await expect(model.predict('fill-mask', input)).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: `model: expected tie_word_embeddings: false in config.json, as '${decoder}' is not the token embeddings, got true`,
  });
  using own = await heed.fromPretrained(withDecoder(differing, { tie_word_embeddings: false }));
  const found = (await own.predict('fill-mask', input)).logits;
  expect(found.shape).toEqual(logits.shape);
  expect(found.data).not.toEqual(logits.data);
});
