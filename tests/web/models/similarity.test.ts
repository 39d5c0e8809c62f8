/** `similarity`, `semanticSearch` and queries of an index. */
import { load, semanticSearch, similarity, Tensor } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';

const heed = await load();
afterAll(() => heed.dispose());

const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32 - 0.5;
};
const matrix = (rows: number, width: number, seed: number) =>
  new Tensor(Float32Array.from({ length: rows * width }, random(seed)), [rows, width]);

describe('vectors', () => {
  test('similarity is the cosine', () => {
    const [a, b] = [matrix(3, 5, 1), matrix(4, 5, 2)];
    const s = similarity(a, b);
    expect(s.shape).toEqual([3, 4]);
    const [x, y] = [a.data.subarray(5, 10), b.data.subarray(10, 15)];
    const dot = x.reduce((sum, v, i) => sum + v * y[i]!, 0);
    expect(s.data[6]).toBeCloseTo(dot / Math.hypot(...x) / Math.hypot(...y), 6);
    const self = similarity(a);
    for (let i = 0; i < 3; i++) expect(self.data[4 * i]).toBeCloseTo(1, 6);
    expect([...similarity(new Tensor(new Float32Array(5), [1, 5]), b).data]).toEqual([0, 0, 0, 0]);
    expect(() => similarity(a, matrix(2, 4, 1))).toThrow(/expected vectors of the same width, got widths 5 and 4/);
    expect(() => similarity(matrix(65_536, 1, 1))).toThrow(
      expect.objectContaining({
        code: 'OUT_OF_MEMORY',
        message: expect.stringContaining('at most 2^31 - 1 pairs, got 65536 times 65536'),
      }),
    );
  });

  test('search finds the best exactly', () => {
    const [queries, corpus] = [matrix(2, 6, 3), matrix(500, 6, 4)];
    const hits = semanticSearch(queries, corpus, { topK: 7 });
    const all = similarity(queries, corpus);
    hits.forEach((list, n) => {
      const scores = [...all.data.subarray(n * 500, (n + 1) * 500)].map((score, index) => ({ index, score }));
      expect(list).toEqual(scores.sort((a, b) => b.score - a.score || a.index - b.index).slice(0, 7));
    });
    expect(semanticSearch(queries, matrix(3, 6, 1), { topK: 10 })[0]).toHaveLength(3);
    expect(() => semanticSearch(queries, corpus, { topK: 0 })).toThrow(/topK/);
  });

  test('an index says what is wrong with a query', () => {
    const index = heed.TextIndex.of(['a', 'b'], matrix(2, 4, 5));
    const throwing = new Proxy(new Float32Array(4), {
      get() {
        throw new Error('not for you');
      },
    });
    for (const [query, code, message] of [
      [throwing, 'INVALID_ARGUMENT', 'query: reading it threw Error: not for you'],
      [new Float32Array(3), 'SHAPE_MISMATCH', 'query: expected 4 entries, got 3. Embed it with the model of the index'],
      [
        7,
        'INVALID_ARGUMENT',
        'query: expected a { data: Float32Array, shape } tensor or nested arrays of numbers, got 7',
      ],
    ] as const)
      expect(() => index.search(query as never)).toThrow(
        expect.objectContaining({ name: 'HeedError', code, message: expect.stringContaining(message) }),
      );
  });
});
