/**
 * `heed.quantizeIndex`: searches agree with those of the original vectors, changes of such an index;
 * damaged files; rejected calls.
 */
import { load, type TextIndex } from 'heed';
import { describe, expect, test } from 'vitest';
import { decodeTrellisRows } from '../../../web/src/io/trellis.js';
import { trellisValues } from './coded.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const WIDTH = 40;
const COUNT = 300;

/** Unit vectors near a subspace of 12 dimensions, which principal components find. */
function vectorsOf(count: number, seed: number): number[][] {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
  return Array.from({ length: count }, () => {
    const own = Array.from({ length: 12 }, next);
    const row = Array.from({ length: WIDTH }, (_, k) =>
      own.reduce((sum, v, j) => sum + v * Math.cos(3 * j * k + j), 0),
    );
    const norm = Math.hypot(...row);
    return row.map((v) => v / norm);
  });
}
const vectors = vectorsOf(COUNT, 1);
const queries = vectorsOf(20, 2);
const texts = vectors.map((_, n) => `text ${n}`);
const exact = heed.TextIndex.of(texts, vectors, { storage: 'float32' });

describe('an index of components', () => {
  const Index = heed.TextIndex;
  test.each([3, 4] as const)('%d bits: the scores of a search are near those of the original', async (bits) => {
    const bytes = await heed.quantizeIndex(exact, { components: 16, bits });
    using index = await Index.load(bytes);
    expect(index.dimensions).toBe(WIDTH);
    expect(index.texts).toEqual(texts);
    const [found, expected] = [index, exact].map((each) => each.searchAll(queries, { topK: COUNT }));
    const most = bits === 3 ? 0.09 : 0.05;
    for (const [n, hits] of found!.entries()) {
      const scores = new Map(expected![n]!.map(({ id, score }) => [id, score]));
      for (const { id, score } of hits) expect(Math.abs(score - scores.get(id)!)).toBeLessThan(4 * most);
      const squares = hits.map(({ id, score }) => (score - scores.get(id)!) ** 2);
      expect(Math.sqrt(squares.reduce((a, b) => a + b) / COUNT)).toBeLessThan(most);
    }
    const [query] = queries;
    const hits = index.search([query!], { threshold: 0.5 });
    const all = index.search([query!], { topK: COUNT });
    expect(hits).toEqual(all.filter(({ score }) => score >= 0.5));
    expect(
      index
        .search([query!], { topK: 3, ids: [5, 6] })
        .map(({ id }) => id)
        .sort(),
    ).toEqual([5, 6]);
  });

  test('can be changed and saved', async () => {
    using index = await Index.load(await heed.quantizeIndex(exact, { components: 16 }));
    expect(await index.add(['new'], [queries[0]!])).toEqual([COUNT]);
    expect(index.search([queries[0]!], { topK: 1 })[0]).toMatchObject({ text: 'new' });
    await index.remove([0]);
    expect(index.texts).toHaveLength(COUNT);
    const { data, shape } = index.toTensor();
    expect(shape).toEqual([COUNT, WIDTH]);
    expect(Math.hypot(...data.subarray(0, WIDTH))).toBeCloseTo(1, 4);
    using again = await Index.load(await index.save());
    const [a, b] = [index, again].map((each) => each.search([queries[1]!], { topK: 5 }));
    for (const [n, { score }] of a!.entries()) expect(b![n]!.score).toBeCloseTo(score, 1);
    expect(() => index.search([[1, 2]])).toThrow(`query: expected ${WIDTH} entries, got 2`);
  });

  test('once it is emptied, it is like any empty index', async () => {
    const others = [
      [[...Array(7).keys()].map((k) => k - 3), [1, 0, 0, 0, 0, 0, 0]],
      { data: Uint8Array.of(0b10101010, 0b11110000), shape: [2, 1] },
      vectors.slice(0, 2),
    ] as const;
    for (const [n, other] of others.entries()) {
      using index = await Index.load(await heed.quantizeIndex(exact, { components: 16 }));
      await index.remove([...Array(COUNT).keys()]);
      expect([index.dimensions, index.search([1])]).toEqual([0, []]);
      await index.add(['a', 'b'], other as never);
      using expected = Index.of(['a', 'b'], other as never);
      expect(index.dimensions).toBe(expected.dimensions);
      expect(index.toTensor()).toEqual(expected.toTensor());
      const query = Array.from({ length: index.dimensions }, (_, k) => Math.sin(k + n));
      const scores = (each: TextIndex) => each.search(query).map(({ text, score }) => ({ text, score }));
      expect(scores(index)).toEqual(scores(expected));
      using again = await Index.load(await index.save());
      expect(scores(again)).toEqual(scores(expected));
    }
  });
});

test('waits for texts that are being added', async () => {
  using index = heed.TextIndex.of(texts, vectors);
  const adding = index.add(['new'], [queries[0]!]);
  const bytes = await heed.quantizeIndex(index, { components: 16 });
  await adding;
  using loaded = await heed.TextIndex.load(bytes);
  expect(loaded.texts).toEqual([...texts, 'new']);
  expect(loaded.search([queries[0]!], { topK: 1 })[0]).toMatchObject({ text: 'new' });
});

test('keeps the vectors of an index that would grow', async () => {
  const lines = [...texts.slice(0, 29), 'cut \ud83e'];
  using index = heed.TextIndex.of(lines, vectors.slice(0, 30));
  const file = await index.save();
  const bytes = await heed.quantizeIndex(index);
  expect(Buffer.compare(bytes, file)).toBe(0);
  const without = await heed.quantizeIndex(index, { texts: false });
  expect(without.length).toBeLessThan(file.length);
  using loaded = await heed.TextIndex.load({ 'index.safetensors': without, 'words.txt': lines.join('\n') });
  expect(loaded.toTensor()).toEqual(index.toTensor());
});

test('embeds texts by its model; without texts in the file, they are in words.txt', async () => {
  using model = await heed.fromPretrained(tinyModel());
  const lines = ['the quick brown fox', 'a lazy dog', 'the fox', 'jumps over'];
  using index = await heed.TextIndex.of(model, lines);
  const bytes = await heed.quantizeIndex(index, { components: 4, bits: 4, texts: false });
  const files = { 'index.safetensors': bytes, 'words.txt': `${lines.join('\n')}\n` };
  using loaded = await heed.TextIndex.load(files, { embedder: model });
  expect((await loaded.search('a lazy dog'))[0]!.text).toBe('a lazy dog');
  const options = { embedder: async () => [[1, 2, 3]] };
  await expect(heed.TextIndex.load(files, options)).rejects.toThrow('vectors of 24 entries');
});

test('decodes rows as the WebAssembly module does', () => {
  const rows = Uint8Array.from({ length: 2 * 3 * 3 }, (_, i) => (i * 89 + 7) & 255);
  const columnScales = Float32Array.from({ length: 19 }, (_, c) => 1 + c / 8);
  const expected = trellisValues(rows, 3, Float32Array.of(1, 1), columnScales, false);
  expect([...decodeTrellisRows(rows, 3, columnScales)]).toEqual([...expected]);
});

test('damaged files', async () => {
  const bytes = await heed.quantizeIndex(exact, { components: 16 });
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const json = new TextDecoder().decode(bytes.subarray(8, 8 + length));
  const damaged = async (from: string, to: string, message: string) => {
    expect(json).toContain(from);
    const header = new TextEncoder().encode(json.replace(from, to).padEnd(length).slice(0, length));
    const file = bytes.slice();
    file.set(header, 8);
    await expect(heed.TextIndex.load(file)).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining(message),
    });
  };
  await damaged('[16,40]', '[40,16]', "tensor 'vectors': expected U8 [300, 3, 5]");
  await damaged(
    '[1,16]',
    '[16,1]',
    "tensor 'vectors_column_scale': expected finite numbers, BF16 [1, 16], got BF16 [16, 1]",
  );
  await damaged('[300,3,2]', '[300,2,3]', "tensor 'vectors': expected U8 [300, 3, 2] or 4 bits");
  await damaged('"heed_index":"3"', '"heed_index":"9"', 'expected an index of version 1, 2 or 3');
});

test('says what is wrong', async () => {
  const refused = (index: unknown, options: object, message: string) =>
    expect(heed.quantizeIndex(index as never, options)).rejects.toThrow(message);
  await refused(exact, { components: 41 }, "quantizeIndex.components: expected at most 40, the vectors' width, got 41");
  await refused(exact, { bits: 5 }, 'quantizeIndex.bits: expected 3 or 4, got 5');
  await refused({}, {}, 'index: expected a TextIndex, got an object');
  await refused(heed.TextIndex.of(), {}, 'index: expected an index with texts');
  await refused(heed.TextIndex.of(['a'], [[1, 0]], { similarity: 'dot' }), {}, "similarity 'cosine', got 'dot'");
});
