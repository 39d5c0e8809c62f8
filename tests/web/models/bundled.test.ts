/** The bundled model: vectors of sentence-transformers on the same weights, its sizes, and what its dictionary finds. */
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { expect, test } from 'vitest';

const folder = new URL('../../../web/model/', import.meta.url);
const read = (path: string) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));
const expected: { text: string; ids: number[]; vector: number[] }[] = read('../../fixtures/bundled/expected.json');
const heed = await load();

test.each([
  ['fp32', 0.99999],
  ['q8', 0.99],
] as const)('as %s: tokens and vectors of sentence-transformers', async (dtype, least) => {
  using model = await heed.fromPretrained(undefined, { dtype });
  const texts = expected.map(({ text }) => text);
  const { inputIds } = await model.tokenize(texts);
  const { data, shape } = await model.embed(texts);
  expect(shape).toEqual([texts.length, 384]);
  for (const [n, { ids: own, vector }] of expected.entries()) {
    expect(inputIds[n]).toEqual(own);
    const cosine = vector.reduce((sum, v, k) => sum + v * data[n * 384 + k]!, 0);
    expect(cosine).toBeGreaterThan(least);
  }
});

test.each(['fp32', 'q8'] as const)(
  'as %s: every setting is read, so that a page loads no table of settings',
  async (dtype) => {
    using model = await heed.fromPretrained(undefined, { dtype, strict: true });
    expect(model.config.unread).toEqual([]);
  },
);

test('sizes', () => {
  const size = (path: string) => statSync(fileURLToPath(new URL(path, folder))).size;
  expect(size('model.safetensors')).toBeLessThanOrEqual(7_200_000);
  expect(size('model.safetensors') + size('tokenizer.json')).toBeLessThanOrEqual(8_000_000);
  expect(size('dictionary/index.safetensors') + size('dictionary/words.txt')).toBeLessThanOrEqual(2_200_000);
});

test('the dictionary finds described words', async () => {
  using model = await heed.fromPretrained(undefined, { dtype: 'q8' });
  using index = await heed.TextIndex.load(new URL('dictionary/', folder), { embedder: model });
  expect(index.texts).toHaveLength(20_000);
  const entries: { text: string; words: string[] }[] = read('../../../tools/model/everyday.json');
  const found = await index.searchAll(entries.map(({ text }) => text));
  const among = (count: number) =>
    entries.filter(({ words }, n) => found[n]!.slice(0, count).some(({ text }) => words.includes(text))).length;
  expect(among(1)).toBeGreaterThanOrEqual(26);
  expect(among(10)).toBeGreaterThanOrEqual(54);
});
