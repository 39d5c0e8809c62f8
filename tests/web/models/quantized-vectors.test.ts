/**
 * Vectors as int8 and as bits, and searching them. Expected values: NumPy's, from
 * tests/fixtures/models/quantized_vectors.py.
 */
import { readFileSync } from 'node:fs';
import { type Int8Vectors, load, semanticSearch, similarity, Tensor } from 'heed';
import { describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
const texts = ['the quick fox', 'a', 'x y z the 12', 'brown foxes'];
const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32 - 0.5;
};
const matrix = (rows: number, width: number, seed: number) =>
  new Tensor(Float32Array.from({ length: rows * width }, random(seed)), [rows, width]);

/** Rounds vectors like `embed` with `output: 'int8'`. */
const int8 = (vectors: Tensor) => {
  const [count, width] = vectors.shape as [number, number];
  const scales = new Float32Array(count);
  const data = new Int8Array(count * width);
  for (let n = 0; n < count; n++) {
    const row = vectors.data.subarray(n * width, (n + 1) * width);
    scales[n] = Math.max(...row.map(Math.abs)) / 127;
    row.forEach((v, i) => {
      data[n * width + i] = Math.round((v / (127 * scales[n]!)) * 127);
    });
  }
  return Object.assign(new Tensor(data, [count, width]), { scales });
};
const bits = (vectors: Tensor) => {
  const [count, width] = vectors.shape as [number, number];
  const rows = Array.from({ length: count }, (_, n) =>
    Array.from({ length: Math.ceil(width / 8) }, (_, byte) =>
      Number.parseInt(
        Array.from(
          { length: 8 },
          (_, bit) => +(8 * byte + bit < width && vectors.data[n * width + 8 * byte + bit]! > 0),
        ).join(''),
        2,
      ),
    ),
  );
  return new Tensor(Uint8Array.from(rows.flat()), [count, Math.ceil(width / 8)]);
};

describe('embed', () => {
  test.each([undefined, { worker: true }, { workers: 2 }])(
    'int8 and bits of the fp32 vectors (%o)',
    async (options) => {
      using model = await heed.fromPretrained(tinyModel(), options);
      const floats = await model.embed(texts, { normalize: true });
      expect(await model.embed(texts, { normalize: true, output: 'float32' })).toEqual(floats);
      const rounded: Int8Vectors = await model.embed(texts, { normalize: true, output: 'int8' });
      expect(rounded).toBeInstanceOf(Tensor);
      expect(rounded.data).toBeInstanceOf(Int8Array);
      expect(rounded.shape).toEqual([4, 24]);
      expect(rounded.scales).toHaveLength(4);
      floats.data.forEach((v, i) => {
        const scale = rounded.scales[Math.floor(i / 24)]!;
        expect(Math.abs(rounded.data[i]! * scale - v)).toBeLessThanOrEqual(0.501 * scale);
      });
      const signs = await model.embed(texts, { normalize: true, output: 'binary' });
      const { tokens } = floats;
      expect({ ...signs }).toEqual({ ...bits(floats), truncated: [0, 0, 0, 0], tokens });
      // A vector does not depend on the other texts of its call.
      expect((await model.embed(texts[2]!, { normalize: true, output: 'int8' })).data).toEqual(
        rounded.data.slice(48, 72),
      );
      expect((await model.embed([], { output: 'binary' })).shape).toEqual([0, 3]);
      await expect(model.embed('a', { output: 'uint8' as 'int8' })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: "embed.output: expected one of 'float32', 'int8', 'binary' (nearest: 'int8'), got 'uint8'",
      });
    },
  );

  test("the bits are NumPy's, the integers within one half of a step", async () => {
    const golden = JSON.parse(
      readFileSync(new URL('../../fixtures/models/quantized-vectors.json', import.meta.url), 'utf8'),
    );
    const vectors = new Tensor(Float32Array.from(golden.vectors.flat() as number[]), [3, 16]);
    const index = heed.TextIndex.of(['a', 'b', 'c'], vectors);
    index.toTensor().data.forEach((v, i) => expect(v).toBeCloseTo(golden.unit[Math.floor(i / 16)][i % 16], 6));
    const packed = new Tensor(Uint8Array.from(golden.ubinary.flat() as number[]), [3, 2]);
    expect(bits(vectors)).toEqual(packed);
    const [hits] = semanticSearch(vectors.slice(0, 1), packed);
    expect(hits!.map(({ index }) => index)).toEqual(golden.order);
    hits!.forEach(({ index, score }) => expect(score).toBeCloseTo(golden.scores[index], 6));
  });
});

describe('search', () => {
  const corpus = matrix(400, 24, 7);
  const queries = matrix(3, 24, 8);
  const exact = semanticSearch(queries, corpus, { topK: 5 });

  test.each([
    ['fp32', corpus, {}],
    ['int8', int8(corpus), {}],
    ['bits', bits(corpus), {}],
    ['bits, with more candidates', bits(corpus), { candidates: 12 }],
    ['bits with rescore', bits(corpus), { rescore: int8(corpus) }],
  ])('over %s in the core finds the same rows, and leaves no memory', (form, rows, options) => {
    const indices = (hits: { index: number }[][]) => hits.map((each) => each.map(({ index }) => index));
    for (const topK of [1, 7, 1000]) {
      const plain = semanticSearch(queries, rows, { topK, ...options });
      const found = semanticSearch(queries, rows, { topK, ...options, heed });
      // With bits, several rows may have the same score.
      if (!form.startsWith('bits')) expect(indices(found)).toEqual(indices(plain));
      found.forEach((hits, n) => {
        expect(hits).toHaveLength(plain[n]!.length);
        hits.forEach(({ score }, i) => expect(score).toBeCloseTo(plain[n]![i]!.score, 6));
      });
    }
    const before = heed.info.memoryBytes;
    for (let call = 0; call < 200; call++) semanticSearch(queries, rows, { ...options, heed });
    expect(heed.info.memoryBytes).toBe(before);
  });

  test('in the core of an empty corpus, of a zero row, of NaN, and of a runtime that is no more', async () => {
    expect(semanticSearch(queries, new Tensor(new Float32Array(), [0, 24]), { heed })).toEqual([[], [], []]);
    for (const value of [0, Number.NaN, Number.POSITIVE_INFINITY]) {
      const rows = matrix(3, 24, 7);
      rows.data.fill(value, 0, 24);
      const plain = semanticSearch(queries, rows);
      const found = semanticSearch(queries, rows, { heed });
      // A row of zeros is scored in WebAssembly, where scores may differ in the last digits.
      if (value !== 0) expect(found).toEqual(plain);
      const indices = (hits: typeof plain) => hits.map((each) => each.map(({ index }) => index));
      expect(indices(found)).toEqual(indices(plain));
    }
    const ended = await load();
    ended.dispose();
    expect(() => semanticSearch(queries, corpus, { heed: ended })).toThrow(/used after dispose/);
    expect(() => semanticSearch(queries, corpus, { heed: {} as never })).toThrow(
      'semanticSearch.heed: expected what `load()` returned, got an object',
    );
  });

  test('over int8 scores as the dequantized vectors', () => {
    const rounded = int8(corpus);
    const values = Float32Array.from(rounded.data, (v, i) => v * rounded.scales[Math.floor(i / 24)]!);
    const all = similarity(queries, new Tensor(values, [400, 24]));
    semanticSearch(queries, rounded, { topK: 5 }).forEach((hits, n) => {
      expect(hits[0]!.index).toBe(exact[n]![0]!.index);
      for (const { index, score } of hits) expect(score).toBeCloseTo(all.data[n * 400 + index]!, 5);
    });
  });

  test('over bits selects by Hamming distance and scores with the fp32 query', () => {
    const codes = bits(corpus);
    const signs = new Tensor(
      corpus.data.map((v) => (v > 0 ? 1 : -1)),
      [400, 24],
    );
    // With enough candidates, the order is that of the cosine with the signs.
    const all = semanticSearch(queries, signs, { topK: 5 });
    semanticSearch(queries, codes, { topK: 5, candidates: 80 }).forEach((hits, n) => {
      expect(hits.map(({ index }) => index)).toEqual(all[n]!.map(({ index }) => index));
      hits.forEach(({ score }, i) => expect(score).toBeCloseTo(all[n]![i]!.score, 5));
    });
    // When rescored with int8, the best of all candidates is the best of the corpus.
    const rescored = semanticSearch(queries, codes, { topK: 5, candidates: 80, rescore: int8(corpus) });
    expect(rescored.map((hits) => hits[0]!.index)).toEqual(exact.map((hits) => hits[0]!.index));
    // With one candidate, only the Hamming distance counts.
    const distances = Array.from({ length: 400 }, (_, row) =>
      Array.from({ length: 24 }, (_, i) => +(signs.data[row * 24 + i]! > 0 !== queries.data[i]! > 0)).reduce(
        (a, b) => a + b,
      ),
    );
    const [first] = semanticSearch(queries, codes, { topK: 1, candidates: 1 });
    expect(distances[first![0]!.index]).toBe(Math.min(...distances));
  });

  test('an index of either gives the same hits and survives saving', async () => {
    const names = Array.from({ length: 400 }, (_, i) => `text ${i}`);
    const rounded = heed.TextIndex.of(names, int8(corpus));
    expect(rounded.toSafetensors()).toEqual(heed.TextIndex.of(names, corpus).toSafetensors());
    const query = queries.slice(0, 1);
    const hits = rounded.search(query, { topK: 5 });
    expect(hits.map(({ index }) => index)).toEqual(
      semanticSearch(query, int8(corpus), { topK: 5 })[0]!.map(({ index }) => index),
    );
    expect(rounded.search(query, { topK: 5, candidates: 80 })).toEqual(hits);
    const binary = heed.TextIndex.of(names, bits(corpus));
    expect(binary.dimensions).toBe(24);
    expect(binary.search(query, { topK: 3 })).toEqual(
      semanticSearch(query, bits(corpus), { topK: 3 })[0]!.map((hit) => ({
        ...hit,
        id: hit.index,
        text: names[hit.index],
      })),
    );
    const file = binary.toSafetensors();
    expect(file.length).toBeLessThan(3 * 400 + 200);
    const again = await heed.TextIndex.load({ 'index.safetensors': file, 'words.txt': names.join('\n') });
    expect(again.search(query)).toEqual(binary.search(query));
    expect(again.toTensor()).toEqual(binary.toTensor());
    expect(Math.hypot(...again.toTensor().data.subarray(0, 24))).toBeCloseTo(1, 6);
  });

  test('says what is wrong', () => {
    const codes = bits(corpus);
    for (const [call, message] of [
      [
        () => semanticSearch(matrix(1, 40, 1), codes),
        'corpus: expected rows of 5 bytes, for vectors of 40, got rows of 3',
      ],
      [
        () => semanticSearch(matrix(1, 5, 1), int8(corpus)),
        'corpus: expected rows of 5 entries, for vectors of 5, got rows of 24',
      ],
      [
        () => semanticSearch(queries, codes, { rescore: int8(matrix(3, 24, 1)) }),
        'semanticSearch.rescore: expected 400 rows, as the corpus, got 3',
      ],
      [
        () => semanticSearch(queries, { data: new Int8Array(5), shape: [2, 3] }),
        'corpus: expected 6 values for shape [2, 3], got 5',
      ],
      [() => heed.TextIndex.of(['a'], codes), 'vectors: expected [1, width], one row per text, got shape [400, 3]'],
      [
        () => semanticSearch(queries, codes, { candidates: 0 }),
        'semanticSearch.candidates: expected an integer from 1',
      ],
    ] as const)
      expect(call).toThrow(expect.objectContaining({ name: 'HeedError', message: expect.stringContaining(message) }));
  });
});
