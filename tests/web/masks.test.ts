import { type Heed, load, type Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

describe('masks', () => {
  it('causal', () => {
    expect(heed.masks.causal(3).toArray()).toEqual([
      [1, 0, 0],
      [1, 1, 0],
      [1, 1, 1],
    ]);
    expect(heed.masks.causal(2, 3).toArray()).toEqual([
      [1, 0, 0],
      [1, 1, 0],
    ]);
  });

  it('window', () => {
    expect(heed.masks.window(4, 1).toArray()).toEqual([
      [1, 1, 0, 0],
      [1, 1, 1, 0],
      [0, 1, 1, 1],
      [0, 0, 1, 1],
    ]);
  });

  it('padding', () => {
    const mask = heed.masks.padding([2, 0, 3], 3);
    expect(mask.shape).toEqual([3, 1, 1, 3]);
    expect(Array.from(mask.data)).toEqual([1, 1, 0, 0, 0, 0, 1, 1, 1]);
    expect(heed.masks.padding([1, 2]).shape).toEqual([2, 1, 1, 2]);
  });

  it('and of boolean masks broadcasts', () => {
    const both = heed.masks.and(heed.masks.padding([2, 3], 3), heed.masks.causal(3));
    expect(both.shape).toEqual([2, 1, 3, 3]);
    expect(both.data).toBeInstanceOf(Uint8Array);
    expect(Array.from(both.data)).toEqual([1, 0, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1]);
  });

  it('and of an additive and a boolean mask is additive', () => {
    const both = heed.masks.and({ data: Float32Array.of(1, 2), shape: [2] }, [[true], [false]]);
    expect(both.toArray()).toEqual([
      [1, 2],
      [-Infinity, -Infinity],
    ]);
    expect(
      heed.masks.and({ data: Float32Array.of(1), shape: [1] }, { data: Float32Array.of(2), shape: [1] }).toArray(),
    ).toEqual([3]);
  });

  it('alibi slopes away from the query', () => {
    const { data, shape } = heed.masks.alibi(2, 2, 3) as Tensor;
    expect(shape).toEqual([2, 2, 3]);
    const [a, b] = [2 ** -4, 2 ** -8];
    const expected = [0, -a, -2 * a, -a, 0, -a, 0, -b, -2 * b, -b, 0, -b];
    for (const [i, value] of expected.entries()) expect(data[i]).toBeCloseTo(value, 7);
  });

  it.each([
    ['causal', () => heed.masks.causal(-1), 'INVALID_ARGUMENT'],
    ['causal', () => heed.masks.causal(100_000), 'OUT_OF_MEMORY'],
    ['window', () => heed.masks.window(3, 0.5), 'INVALID_ARGUMENT'],
    ['padding', () => heed.masks.padding([1, 5], 3), 'INVALID_ARGUMENT'],
    ['padding', () => heed.masks.padding([1, -5]), 'INVALID_ARGUMENT'],
    ['padding', () => heed.masks.padding(3 as unknown as number[]), 'INVALID_ARGUMENT'],
    ['and', () => heed.masks.and([true, false], [true, false, true]), 'SHAPE_MISMATCH'],
    [
      'and',
      () => heed.masks.and(heed.masks.padding([50_000]), heed.masks.padding(new Array(50_000).fill(1))),
      'OUT_OF_MEMORY',
    ],
    ['alibi', () => heed.masks.alibi(0, 2), 'INVALID_ARGUMENT'],
    ['alibi', () => heed.masks.alibi(1000, 100_000), 'OUT_OF_MEMORY'],
    ['relative', () => heed.masks.relative([1, 2], 2), 'SHAPE_MISMATCH'],
  ])('%s refuses what makes no sense', (_, body, code) => {
    expect(body).toThrow(expect.objectContaining({ name: 'HeedError', code }));
  });
});
