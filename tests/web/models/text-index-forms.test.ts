/** Rows of fp32, dot products instead of cosines, an index with its model, and searches with invalid arguments. */
import fc from 'fast-check';
import { HeedError, load, Tensor, type TextIndex } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';

/** `npm run fuzz` sets a larger number. */
const RUNS = Number(process.env.HEED_FUZZ_RUNS ?? 300);

const heed = await load();
afterAll(() => heed.dispose());

const WIDTH = 24;
const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32 - 0.5;
};
const matrix = (rows: number, width: number, seed: number) =>
  new Tensor(Float32Array.from({ length: rows * width }, random(seed)), [rows, width]);
const names = (count: number) => Array.from({ length: count }, (_, i) => `text ${i}`);
const error = (code: string, message: string) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringContaining(message) });

const corpus = matrix(300, WIDTH, 1);
const queries = matrix(5, WIDTH, 2);
const Index = heed.TextIndex;

/** The best rows by their definition, in double precision. */
function expected(values: Tensor, query: Float32Array, similarity: 'cosine' | 'dot', topK: number) {
  const [count, width] = values.shape as [number, number];
  const norm = (v: Float32Array) => Math.hypot(...v) || 1;
  const scores = Array.from({ length: count }, (_, n) => {
    const row = values.data.subarray(n * width, (n + 1) * width);
    const product = row.reduce((sum, v, k) => sum + v * query[k]!, 0);
    return { index: n, score: similarity === 'dot' ? product : product / (norm(row) * norm(query)) };
  });
  return scores.sort((a, b) => b.score - a.score).slice(0, topK);
}

function expectHits(got: { index: number; score: number }[], wanted: { index: number; score: number }[]) {
  expect(got.map(({ index }) => index)).toEqual(wanted.map(({ index }) => index));
  got.forEach(({ score }, i) => {
    const { score: exact } = wanted[i]!;
    expect(Math.abs(score - exact)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(exact));
  });
}

const forms = (['float32', 'int8'] as const).flatMap((storage) =>
  (['cosine', 'dot'] as const).map((similarity) => [storage, similarity] as const),
);

describe.each(forms)('%s, %s', (storage, similarity) => {
  const index = Index.of(names(300), corpus, { storage, similarity });
  const query = (n: number) => queries.slice(n, n + 1);

  test('finds the best', () => {
    const values = index.toTensor();
    if (storage === 'float32' && similarity === 'dot') expect(values).toEqual(corpus);
    const all = index.searchAll(queries, { topK: 7 });
    all.forEach((hits, n) => {
      expectHits(hits, expected(values, query(n).data, similarity, 7));
      expect(index.search(query(n), { topK: 7 })).toEqual(hits);
      const threshold = hits[4]!.score;
      expect(index.search(query(n), { threshold }).length).toBe(5);
      // The multiplier is so large that all rows are selected.
      expect(index.search(query(n), { topK: 7, candidates: 100 })).toEqual(hits);
    });
  });

  test('grows, shrinks and is saved', async () => {
    const half = Index.of(names(100), corpus.slice(0, 100), { storage, similarity });
    half.search(query(0), { candidates: 2 }); // computes the signs
    await half.add(names(300).slice(100), corpus.slice(100, 300));
    const file = await half.save();
    expect(Buffer.compare(file, await index.save())).toBe(0);
    const loaded = await Index.load({ 'index.safetensors': file });
    expect(loaded.searchAll(queries)).toEqual(index.searchAll(queries));
    expect(Buffer.compare(await loaded.save(), file)).toBe(0);
    await loaded.remove([0, 5, 299]);
    await half.remove([0, 5, 299]);
    expect(loaded.searchAll(queries)).toEqual(half.searchAll(queries));
    for (const made of [half, loaded]) made.dispose();
  });
});

test('what does not fit is refused, and the index is as before', async () => {
  const bits = new Tensor(new Uint8Array(6), [2, 3]);
  const int8 = new Tensor(new Int8Array(8).fill(3), [2, 4]);
  expect(() => Index.of(['a', 'b'], bits, { similarity: 'dot' })).toThrow(error('INVALID_ARGUMENT', "'dot'"));
  expect(() => Index.of(['a', 'b'], bits, { storage: 'float32' })).toThrow(
    error('INVALID_ARGUMENT', 'got binary vectors'),
  );
  expect(() => Index.of(['a', 'b'], int8, { similarity: 'dot' })).toThrow(error('INVALID_ARGUMENT', 'scales'));
  expect(() => Index.of(['a'], [[1]], { storage: 'fp16' as never })).toThrow(error('INVALID_ARGUMENT', 'storage'));
  const products = { storage: 'float32', similarity: 'dot' } as const;
  expect(() => Index.of(['a'], [[1e30, 0]], products)).toThrow(error('INVALID_ARGUMENT', '1e18'));
  expect(() => Index.of(['a'], [[1, 0]], products).search([1e30, 0])).toThrow(error('INVALID_ARGUMENT', '1e18'));
  expect(() => Index.of(['a'], [[1, 0, 1]], { storage: 'binary' })).toThrow(error('SHAPE_MISMATCH', 'a multiple of 8'));
  expect(() => Index.of(['a'], [[NaN, 0]], { storage: 'float32' })).toThrow(error('INVALID_ARGUMENT', 'NaN'));
  const index = Index.of(['a', 'b'], [[1, 0], [0, 1]], { storage: 'float32' }); // biome-ignore format: one row per text
  await expect(index.add(['c'], [[1, 2, 3]])).rejects.toEqual(error('SHAPE_MISMATCH', '2 entries'));
  await expect(index.add(['c'], [[Infinity, 2]])).rejects.toEqual(error('INVALID_ARGUMENT', 'finite'));
  await expect(index.add(['c', 'd'], [[1, 2], [3, 4]], { ids: [7, 7] })).rejects.toEqual(error('INVALID_ARGUMENT', 'ids[1]')); // biome-ignore format: one row per text
  await expect(index.add(['c'])).rejects.toEqual(error('INVALID_ARGUMENT', 'this index has no model'));
  await expect(index.search('a text')).rejects.toEqual(
    error('INVALID_ARGUMENT', 'query: expected vectors, as this index has no model, got a text'),
  );
  await expect(index.searchAll(['a text'])).rejects.toEqual(
    error('INVALID_ARGUMENT', 'this index has no model, got texts'),
  );
  expect(index.search([1, 0.5]).map(({ text }) => text)).toEqual(['a', 'b']);
  expect(index.search([1, 0.5], { ids: [] })).toEqual([]);
  expect(index.search([1, 0.5], { ids: [99] })).toEqual([]);
  expect(index.search([1, 0.5], { topK: 1000 })).toHaveLength(2);
  expect(() => index.search([1, 0.5], { topK: 0 })).toThrow(error('INVALID_ARGUMENT', 'topK'));
  index.dispose();
});

test('an index that knows its model embeds documents and queries with its prompts', async () => {
  const model = await heed.fromPretrained();
  const texts = ['a small cat', 'a fast car', 'the deep sea'];
  const index = await Index.of(model, texts, { storage: 'float32' });
  const same = Index.of(texts, await model.embedDocument(texts), { storage: 'float32' });
  expect(index.toTensor()).toEqual(same.toTensor());
  const hits = same.search(await model.embedQuery('a kitten'), { topK: 2 });
  expect(hits[0]!.text).toBe('a small cat');
  expect(await index.search('a kitten', { topK: 2 })).toEqual(hits);
  expect(await index.searchAll(['a kitten', 'the ocean'], { topK: 2 })).toEqual(
    same.searchAll(await model.embedQuery(['a kitten', 'the ocean']), { topK: 2 }),
  );
  expect(await index.add(['a large dog'])).toEqual([3]);
  const [dog] = await index.search('a dog', { topK: 1 });
  expect(dog!.text).toBe('a large dog');
  const source = { 'index.safetensors': await index.save() };
  const loaded = await Index.load(source, { embedder: model });
  expect(await loaded.search('a kitten')).toEqual(await index.search('a kitten'));
  await expect(index.search('a kitten', { topK: 0 })).rejects.toEqual(error('INVALID_ARGUMENT', 'topK'));
  const narrow = await Index.of(model, texts, { dimensions: 16 });
  expect([narrow.dimensions, (await narrow.search('a kitten')).length]).toEqual([16, 3]);
  for (const made of [index, same, loaded, narrow]) made.dispose();
  const empty = await heed.TextIndex.of(model, []);
  expect([await empty.search('a cat'), empty.dimensions]).toEqual([[], 0]);
  await expect(heed.TextIndex.of(model, [7] as never)).rejects.toEqual(error('INVALID_ARGUMENT', 'texts'));
  model.dispose();
});

test('a file without texts keeps what scores are', async () => {
  const index = Index.of(['a', 'b'], [[3, 0], [0, 5]], { similarity: 'dot' }); // biome-ignore format: one row per text
  const folder = { 'index.safetensors': index.toSafetensors(), 'words.txt': 'a\nb\n' };
  const again = await Index.load(folder);
  expect(again.search([1, 0.5])).toEqual(index.search([1, 0.5]));
  for (const made of [index, again]) made.dispose();
});

test('the name of a model in the file of an older heed is of no account', async () => {
  const file = await heed.TextIndex.of(['a'], [[1, 0]], { prompt: 'p' }).save();
  // Of the same length as before, so that the file stays whole.
  const older = Buffer.from(Buffer.from(file).toString('latin1').replace('"prompt":"p"', '"model":"ab"'), 'latin1');
  expect((await heed.TextIndex.load(older)).texts).toEqual(['a']);
});

describe('a saved index that was changed or cut', async () => {
  const int8 = await heed.TextIndex.of(names(5), matrix(5, 8, 3), { similarity: 'dot', prompt: 'a' }).save();
  const float32 = await heed.TextIndex.of(names(5), matrix(5, 8, 3), { storage: 'float32' }).save();
  const binary = await heed.TextIndex.of(names(5), matrix(5, 8, 3), { storage: 'binary' }).save();
  const files = { int8, float32, binary };

  test.each(Object.entries(files))('%s: cut anywhere', async (_, file) => {
    for (let length = 0; length < file.length; length++)
      await expect(heed.TextIndex.load({ 'index.safetensors': file.slice(0, length) })).rejects.toBeInstanceOf(
        HeedError,
      );
  });

  test.each(Object.entries(files))('%s: any byte', async (_, file) => {
    const change = fc.array(fc.tuple(fc.nat(file.length - 1), fc.nat(255)), { minLength: 1, maxLength: 3 });
    const bytesBefore = heed.info.memoryBytes;
    await fc.assert(
      fc.asyncProperty(change, async (changes) => {
        const changed = file.slice();
        for (const [at, value] of changes) changed[at] = value;
        let index: TextIndex;
        try {
          index = await heed.TextIndex.load({ 'index.safetensors': changed });
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(HeedError);
          return;
        }
        const query = new Float32Array(index.dimensions).fill(1);
        const hits = index.dimensions > 0 ? index.search(query, { topK: 3 }) : [];
        for (const { score } of hits) expect(Number.isFinite(score)).toBe(true);
        index.dispose();
      }),
      { numRuns: RUNS },
    );
    expect(heed.info.memoryBytes).toBe(bytesBefore); // indexes of failed calls are freed, too
  });
});

test('searches with any options give hits or one HeedError', () => {
  const index = heed.TextIndex.of(names(300), corpus, { storage: 'float32' });
  const numbers = fc.oneof(fc.integer({ min: -2, max: 400 }), fc.constantFrom(NaN, Infinity, -Infinity, 0.5, 2 ** 31));
  const options = fc.record(
    {
      topK: numbers,
      threshold: numbers,
      candidates: numbers,
      exact: fc.boolean(),
      ids: fc.oneof(fc.array(fc.integer({ min: -1, max: 310 }), { maxLength: 4 }), fc.constant([])),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(options, fc.oneof(fc.constant(WIDTH), fc.nat(30)), (given, width) => {
      try {
        const hits = index.search(new Float32Array(width).fill(0.5), given);
        expect(hits.length).toBeLessThanOrEqual(given.ids ? new Set(given.ids).size : (given.topK ?? 300));
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(HeedError);
      }
    }),
    { numRuns: RUNS },
  );
  expect(index.search(corpus.slice(7, 8), { topK: 1 })[0]!.index).toBe(7);
  index.dispose();
});
