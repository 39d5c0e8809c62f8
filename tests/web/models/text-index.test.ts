/** Adding to, removing from and saving an index with its texts; and damaged files. */
import { load, semanticSearch, Tensor, type TextIndex } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';

const heed = await load();
afterAll(() => heed.dispose());

const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32 - 0.5;
};
const matrix = (rows: number, width: number, seed: number) =>
  new Tensor(Float32Array.from({ length: rows * width }, random(seed)), [rows, width]);
const names = (count: number, first = 0) => Array.from({ length: count }, (_, i) => `text ${first + i}`);
const bits = (vectors: Tensor) => {
  const data = new Uint8Array(vectors.data.length / 8);
  vectors.data.forEach((v, i) => {
    if (v > 0) data[i >> 3]! |= 128 >> (i & 7);
  });
  return new Tensor(data, [vectors.shape[0]!, vectors.shape[1]! / 8]);
};
/** Compares bytes; `toEqual` would be slow. */
const same = (a: Uint8Array, b: Uint8Array) => expect(Buffer.compare(a, b)).toBe(0);
const error = (code: string, message: string) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringContaining(message) });

const WIDTH = 40;
const corpus = matrix(300, WIDTH, 1);
const query = matrix(1, WIDTH, 2);
async function withIds(texts: string[], vectors: Parameters<TextIndex['add']>[1], ids: number[]) {
  const index = Index.of();
  expect(await index.add(texts, vectors, { ids })).toEqual(ids);
  return index;
}
/** The storage types, each with a function that converts fp32 vectors to an argument of `of`. */
const forms = [
  ['int8', (vectors: Tensor) => vectors],
  ['bits', bits],
] as const;

const Index = heed.TextIndex;
describe.each(forms)('%s', (form, of) => {
  const all = Index.of(names(300), of(corpus));
  const options = { topK: 7, candidates: 3 };

  test('adding piece by piece gives the index of all', async () => {
    const index = Index.of(names(100), of(corpus.slice(0, 100)));
    expect(index.search(query, options)).toHaveLength(7); // computes the signs, which must grow, too
    for (let at = 100; at < 300; at += 40)
      expect(await index.add(names(40, at), corpus.slice(at, at + 40))).toEqual(
        Array.from({ length: 40 }, (_, i) => at + i),
      );
    expect(index.texts).toEqual(all.texts);
    expect(index.search(query, options)).toEqual(all.search(query, options));
    expect(index.toTensor()).toEqual(all.toTensor());
    same(await index.save(), await all.save());
    same(index.toSafetensors(), all.toSafetensors());
  });

  test('removing gives the index of the others, whose ids stay', async () => {
    const index = Index.of(names(300), of(corpus));
    const best = index.search(query, options).map(({ id }) => id);
    await index.remove(best.slice(0, 3));
    await index.remove([299]);
    const rows = Array.from({ length: 299 }, (_, i) => i).filter((row) => !best.slice(0, 3).includes(row));
    expect(index.texts).toEqual(rows.map((row) => `text ${row}`));
    const rest = await withIds(
      rows.map((row) => `text ${row}`),
      of(new Tensor(Float32Array.from(rows.flatMap((row) => [...corpus.slice(row, row + 1).data])), [296, WIDTH])),
      rows,
    );
    const found = rest.search(query, options);
    expect(index.search(query, options)).toEqual(found);
    // Signs that are computed while there is unused capacity.
    const loaded = await Index.load({ 'index.safetensors': await index.save() });
    await loaded.remove(await loaded.add(['away'], query));
    expect(loaded.search(query, options)).toEqual(found);
    expect(await loaded.add(['new'], query)).toEqual([301]);
    expect(index.search(query, options).every(({ id, text }) => text === `text ${id}`)).toBe(true);
    // New ids do not repeat those of removed texts.
    expect(await index.add(['new'], query)).toEqual([300]);
    expect(index.search(query, { topK: 1 })[0]).toMatchObject({ index: 296, id: 300, text: 'new' });
    await index.remove(index.search(query, { topK: 1e6, candidates: 1 }).map(({ id }) => id));
    expect([index.texts, index.dimensions, index.search(query)]).toEqual([[], 0, []]);
    expect(await index.add(['again'], matrix(1, 8, 3))).toEqual([301]);
    expect(index.dimensions).toBe(8);
  });

  test('adding nothing changes nothing, and the next id survives saving', async () => {
    const index = Index.of(names(2), of(corpus.slice(0, 2)));
    for (const width of [0, 8, WIDTH])
      expect(await index.add([], new Tensor(new Float32Array(), [0, width]))).toEqual([]);
    expect(index.dimensions).toBe(WIDTH);
    await index.remove([1]);
    const again = await Index.load({ 'index.safetensors': await index.save() });
    expect(await again.add(['a'], corpus.slice(1, 2))).toEqual([2]);
    await again.add(['b'], corpus.slice(2, 3), { ids: [Number.MAX_SAFE_INTEGER] });
    await expect(again.add(['c'], corpus.slice(3, 4))).rejects.toEqual(
      error('INVALID_ARGUMENT', 'an id for each text'),
    );
    expect((await Index.load({ 'index.safetensors': await again.save() })).texts).toEqual(['text 0', 'a', 'b']);
  });

  test('one file has the texts and the ids', async () => {
    const texts = ['', 'a\nb\r\n', '\uFEFFmark', 'ž 漢字 🦊', 'x'.repeat(70_000), ...names(295)];
    const ids = texts.map((_, i) => 2 ** 40 + 7 * i);
    const index = await withIds(texts, of(corpus), ids);
    const file = await index.save();
    const again = await Index.load({ 'index.safetensors': file });
    expect(again.texts).toEqual(texts);
    expect(again.search(query, options)).toEqual(index.search(query, options));
    same(await again.save(), file);
    // The loaded index must not be a view of the file.
    const copy = file.slice();
    await again.remove([ids[0]!]);
    await again.add(['more'], query);
    same(file, copy);
    expect(again.search(query, { topK: 1 })[0]).toMatchObject({ text: 'more', id: ids.at(-1)! + 1 });
  });

  test('a filter', () => {
    const isEven = ({ id, index, text }: { id: number | string; index: number; text: string }) =>
      Number(id) % 2 === 0 && text === `text ${index}`;
    const wide = { ...options, topK: 300, candidates: 1 };
    const even = all.search(query, wide).filter(({ id }) => Number(id) % 2 === 0);
    expect(even).toHaveLength(150);
    expect(all.search(query, { ...wide, filter: isEven })).toEqual(even);
    expect(all.search(query, { filter: isEven, ids: [1, 2, 4], topK: 9 }).map(({ id }) => id).sort()).toEqual([2, 4]); // biome-ignore format: one call
    expect(all.search(query, { filter: () => false })).toEqual([]);
    const failing = () => all.search(query, { filter: () => JSON.parse('{') });
    expect(failing).toThrow(SyntaxError);
    expect(() => all.search(query, { filter: 'a' as never })).toThrow(error('INVALID_ARGUMENT', 'a function'));
  });

  test('a threshold, ids and several queries', () => {
    const wide = { ...options, topK: 300, candidates: 1 };
    const found = all.search(query, wide);
    expect(found).toHaveLength(300);
    const least = found[40]!.score;
    const good = found.filter(({ score }) => score >= least);
    expect(all.search(query, { threshold: least, candidates: 1 })).toEqual(good);
    expect(all.search(query, { threshold: least, candidates: 60, topK: 5 })).toEqual(good.slice(0, 5));
    expect(all.search(query, { threshold: 2 })).toEqual([]);
    const ids = new Set(found.filter((_, i) => i % 9 === 4).map(({ id }) => id));
    const allowed = found.filter(({ id }) => ids.has(id));
    expect(all.search(query, { ...wide, ids })).toEqual(allowed);
    expect(all.search(query, { topK: 3, ids: [...ids] })).toEqual(allowed.slice(0, 3));
    expect(all.search(query, { ids: [] })).toEqual([]);
    const queries = matrix(5, WIDTH, 12);
    expect(all.searchAll(queries, options)).toEqual(
      Array.from({ length: 5 }, (_, n) => all.search(queries.slice(n, n + 1), options)),
    );
    expect(all.searchAll(queries.slice(0, 0))).toEqual([]);
  });

  test('options that make no sense', () => {
    for (const [bad, message] of [
      [{ threshold: NaN }, 'search.threshold: expected a finite number'],
      [{ ids: [-1] }, 'search.ids[0]: expected an integer from 0'],
      [{ ids: 'x' }, 'search.ids: expected an array or a Set of integers'],
      [{ exact: 1 }, 'search.exact: expected true or false'],
      [{ topK: 0 }, 'search.topK'],
    ] as const)
      expect(() => all.search(query, bad as never)).toThrow(error('INVALID_ARGUMENT', message));
    expect(() => all.searchAll([[1, 2]])).toThrow(error('SHAPE_MISMATCH', `expected ${WIDTH} entries, got 2`));
  });

  test('after an error everything is as before', async () => {
    const ids = Array.from({ length: 10 }, (_, i) => 10 + i);
    const index = await withIds(names(10), of(corpus.slice(0, 10)), ids);
    const before = await index.save();
    const one = corpus.slice(10, 11);
    const withEntry = (value: number) => new Tensor(one.data.slice().fill(value, 3, 4), [1, WIDTH]);
    for (const [call, expected] of [
      [() => index.add(['a'], matrix(1, 24, 1)), error('SHAPE_MISMATCH', `expected ${WIDTH} entries per row`)],
      [() => index.add(['a', 'b'], one), error('SHAPE_MISMATCH', '[2, width], one row per text')],
      [() => index.add(['a'], withEntry(NaN)), error('INVALID_ARGUMENT', 'finite numbers, got NaN at entry 3')],
      [() => index.add(['a'], withEntry(Infinity)), error('INVALID_ARGUMENT', 'finite numbers, got Infinity')],
      [() => index.add(['a'], one, { ids: [12] }), error('INVALID_ARGUMENT', 'ids[0]: expected an id that is not')],
      [() => index.add(['a'], one, { ids: [1, 2] }), error('INVALID_ARGUMENT', 'ids: expected 1, one per text, got 2')],
      [
        () => index.add(['a', 'b'], corpus.slice(10, 12), { ids: [1, 1] }),
        error('INVALID_ARGUMENT', 'ids[1]: expected an id that is given only once, got 1'),
      ],
      [() => index.add(['a'], one, { ids: [-1] }), error('INVALID_ARGUMENT', 'ids[0]: expected an integer from 0')],
      [() => index.add(['a'], one, { ids: 'x' as never }), error('INVALID_ARGUMENT', 'an array of integers')],
      [() => index.remove([10, 99, 11]), error('NOT_FOUND', 'ids: expected ids of texts in the index, got 99')],
      [() => index.remove([NaN]), error('INVALID_ARGUMENT', 'ids[0]')],
      [async () => index.search(withEntry(NaN)), error('INVALID_ARGUMENT', 'query: expected finite numbers, got NaN')],
      [async () => index.search(matrix(1, 24, 1)), error('SHAPE_MISMATCH', `expected ${WIDTH} entries, got 24`)],
    ] as const)
      await expect(call()).rejects.toEqual(expected);
    if (form === 'int8')
      await expect(index.add(['a'], bits(one))).rejects.toEqual(error('INVALID_ARGUMENT', 'fp32 or int8 vectors'));
    same(await index.save(), before);
    expect(index.search(query)).toHaveLength(10);
    await index.add(['a'], one, { ids: [3] });
    expect(index.search(one, { topK: 1 })[0]).toMatchObject({ id: 3, text: 'a' });
  });
});

test('an empty index', async () => {
  const index = Index.of([], new Tensor(new Float32Array(), [0, WIDTH]));
  expect(index.search(query)).toEqual([]);
  const again = await Index.load({ 'index.safetensors': await index.save() });
  expect(again.texts).toEqual([]);
  await again.remove([]);
  // Calls take effect in their order.
  expect(await Promise.all([again.add(['a'], query), again.add(['b'], matrix(1, WIDTH, 9))])).toEqual([[0], [1]]);
  expect(again.search(query)[0]).toMatchObject({ text: 'a' });
});

test.each(forms)('%s: an index finds what semanticSearch finds', (form, of) => {
  for (const [rows, width] of [
    [1, 8],
    [70, 16],
    [5000, 40],
    [300, 264],
  ] as const) {
    const vectors = of(matrix(rows, width, 8));
    using index = Index.of(names(rows), vectors);
    const corpus = form === 'bits' ? vectors : index.toTensor();
    const queries = matrix(4, width, 9);
    for (const topK of [3, 10, 1000]) {
      const options = { topK, ...(form === 'bits' && { candidates: 20 }) };
      const [expected, found] = [semanticSearch(queries, corpus, options), index.searchAll(queries, options)];
      expect(found.map((hits) => hits.map(({ id }) => id))).toEqual(
        expected.map((hits) => hits.map(({ index }) => index)),
      );
      const scores = expected.flat().map(({ score }) => score);
      const far = found.flat().filter(({ score }, i) => !(Math.abs(score - scores[i]!) < 5e-7));
      expect(far).toEqual([]);
    }
  }
});

test('an index can be disposed of, and ends with its runtime', async () => {
  const own = await load();
  const index = own.TextIndex.of(names(300), corpus);
  const other = own.TextIndex.of(names(300), corpus);
  index.dispose();
  index.dispose();
  for (const use of [() => index.search(query), () => index.texts.length && index.toTensor()])
    expect(use).toThrow(error('DISPOSED', 'TextIndex: used after dispose()'));
  await expect(index.add(['a'], query)).rejects.toEqual(error('DISPOSED', 'TextIndex'));
  expect(other.search(query)).toHaveLength(10);
  own.dispose();
  expect(() => other.search(query)).toThrow(error('DISPOSED', 'used after dispose()'));
});

test('of many equal scores, the first are returned', () => {
  const same = new Tensor(new Float32Array(1000 * 8).fill(1), [1000, 8]);
  const one = same.slice(0, 1);
  for (const corpus of [same, bits(same)])
    for (const topK of [1, 3, 999, 1000, 5000, Infinity])
      expect(semanticSearch(one, corpus, { topK, candidates: 1 })[0]!.map(({ index }) => index)).toEqual(
        Array.from({ length: Math.min(topK, 1000) }, (_, i) => i),
      );
});

test.each([8, 32, 40, 96, 2048])('selects the smallest Hamming distances of %i bits', (width) => {
  const corpus = matrix(200, width, 5);
  const query = matrix(1, width, 6);
  const distances = Array.from({ length: 200 }, (_, row) =>
    query.data.reduce((sum, v, i) => sum + +(v > 0 !== corpus.data[row * width + i]! > 0), 0),
  );
  const nearest = distances.map((distance, row) => ({ distance, row })).sort((a, b) => a.distance - b.distance);
  const codes = bits(corpus);
  // Also if the bytes are not aligned to a word.
  const shifted = new Uint8Array(codes.data.length + 1).subarray(1);
  shifted.set(codes.data);
  for (const data of [codes.data, shifted]) {
    const [hits] = semanticSearch(query, { data, shape: codes.shape }, { topK: 20, candidates: 1 });
    const rows = nearest.slice(0, 20).map(({ row }) => row);
    expect(hits!.map(({ index }) => index).sort((a, b) => a - b)).toEqual(rows.sort((a, b) => a - b));
  }
});

describe('damaged files', async () => {
  const file = await (await withIds(names(4), matrix(4, 8, 1), [5, 6, 8, 9])).save();
  const text = new TextDecoder('latin1').decode(file);
  const load = (bytes: Uint8Array) => heed.TextIndex.load({ 'index.safetensors': bytes });

  test('truncated or longer', async () => {
    for (const length of [0, 7, 20, file.length - 1])
      await expect(load(file.slice(0, length))).rejects.toEqual(error('INVALID_FILE', 'index.safetensors'));
    await expect(load(Uint8Array.from([...file, 0]))).rejects.toEqual(error('INVALID_FILE', 'too long'));
  });

  test.each([
    ['"heed_index":"1"', '"heed_index":"4"', 'an index of version 1, 2 or 3, got version 4'],
    ['"text_lengths"', '"text_lengthz"', "the lengths of its texts, U32 [N], in 'text_lengths', got none"],
    ['"vectors_scale"', '"vectors_scalf"', "with 'vectors_scale' [4, 1]"],
    ['"vectors":', '"vectorz":', 'got none and F32 [4, 1]'],
    ['"F64"', '"I64"', '4 different integers from 0 to 2^53 - 1, or strings, got I64 [4]'],
  ])('%s', async (from, to, message) => {
    const bytes = file.slice();
    bytes.set(new TextEncoder().encode(to), text.indexOf(from));
    await expect(load(bytes)).rejects.toEqual(error('INVALID_FILE', message));
  });

  test.each([
    ['texts', 0, 0xff, 'texts in UTF-8 of the given lengths, got invalid bytes'],
    ['texts', 23, 0xc3, 'texts in UTF-8 of the given lengths, got invalid bytes'], // the first of two bytes
    ['text_lengths', 0, 5, 'texts in UTF-8 of the given lengths, got more bytes than they take'],
    ['text_lengths', 12, 200, 'texts in UTF-8 of the given lengths, got too few bytes for text 3'],
    ['text_lengths', 3, 255, 'texts in UTF-8 of the given lengths, got too few bytes for text 0'],
    ['ids', 7, 0xc0, '4 different integers from 0 to 2^53 - 1'], // negative
    ['ids', 6, 0x18, '4 different integers from 0 to 2^53 - 1'], // 6, which is also the next id
  ])('byte %2$i of %1$s', async (tensor, at, value, message) => {
    const bytes = file.slice();
    const headerBytes = Number(new DataView(file.buffer).getBigUint64(0, true));
    const header = JSON.parse(text.slice(8, 8 + headerBytes));
    bytes[8 + headerBytes + header[tensor].data_offsets[0] + at] = value;
    await expect(load(bytes)).rejects.toEqual(error('INVALID_FILE', message));
  });
});
