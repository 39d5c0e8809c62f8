import { runInNewContext } from 'node:vm';
import { type Heed, load, type MaskInput, Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from './layers/numbers.js';

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

  it('and knows boolean masks of another realm', () => {
    const data = runInNewContext('Uint8Array.of(1, 0)') as Uint8Array;
    const both = heed.masks.and({ data, shape: [2] }, { data: Float32Array.of(5, 6), shape: [2] });
    expect(both.toArray()).toEqual([5, -Infinity]);
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

describe('what is forbidden', () => {
  const length = 11;
  const hidden = 6;
  const numbers = (seed: number, ...shape: number[]) =>
    new Tensor(
      Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(12.9898 * i + seed)),
      shape,
    );
  const spoilt = (tensor: Tensor, value: number) => {
    const copy = new Tensor(tensor.data.slice(), tensor.shape);
    const width = tensor.shape.at(-1)!;
    copy.data.fill(value, hidden * width, (hidden + 1) * width);
    return copy;
  };
  const real = Array.from({ length }, (_, j) => (j === hidden ? 0 : 1));
  const blocks = Array.from({ length }, (_, i) => Array.from({ length }, (__, j) => (i < 5 === j < 5 ? 1 : 0)));
  const added = new Tensor(
    Float32Array.from(real, (one) => (one ? 0 : -Infinity)),
    [length],
  );
  type Call = { causal?: boolean; window?: number; mask?: number[] | number[][] | Tensor };

  it.each<[string, Call, (query: number) => boolean]>([
    ['causality', { causal: true }, (i) => i >= hidden],
    ['a window', { window: 2 }, (i) => Math.abs(i - hidden) <= 2],
    ['padding', { mask: real }, () => false],
    ['a boolean mask', { mask: blocks }, (i) => i >= 5],
    ['-Infinity in an additive mask', { mask: added }, () => false],
    ['two of them', { mask: blocks, window: 1 }, (i) => i >= 5 && Math.abs(i - hidden) <= 1],
  ])('by %s never reaches a query, not even as NaN or Infinity', (_, call, sees) => {
    const [q, k, v] = [numbers(1, length, 4), numbers(2, length, 4), numbers(3, length, 3)];
    const clean = heed.attention(q, k, v, { ...call, returnWeights: true });
    for (const [key, value] of [
      [Number.NaN, 0],
      [Infinity, 0],
      [0, Number.NaN],
      [Number.NaN, -Infinity],
    ] as const) {
      const result = heed.attention(q, spoilt(k, key), spoilt(v, value), { ...call, returnWeights: true });
      for (let i = 0; i < length; i++) {
        const row = result.output.data.subarray(i * 3, i * 3 + 3);
        if (sees(i)) {
          if (Number.isNaN(key) || Number.isNaN(value)) expect(row.every(Number.isNaN), `query ${i}`).toBe(true);
        } else {
          expect(row, `query ${i}`).toEqual(clean.output.data.subarray(i * 3, i * 3 + 3));
          const weights = [result, clean].map((r) => r.weights.data.subarray(i * length, (i + 1) * length));
          expect(weights[0]).toEqual(weights[1]);
        }
      }
    }
  });

  it('by a key mask stays out of every layer', () => {
    const x = numbers(1, 1, length, 8);
    const options = { embedDim: 8, numHeads: 2, feedForwardDim: 8, seed: 1 };
    using attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2, seed: 1 });
    using encoder = new heed.Encoder({ ...options, numLayers: 2, finalNorm: true });
    using decoder = new heed.Decoder({ ...options, numLayers: 2 });
    for (const outputOf of [
      (input: Tensor) => attention.forward(input, { keyMask: [real] }).output,
      (input: Tensor) => encoder.forward(input, { keyMask: [real] }).output,
      (input: Tensor) => decoder.forward(x, input, { memoryKeyMask: [real] }).output,
      (input: Tensor) => decoder.forward(input, x, { keyMask: [real] }).output,
    ]) {
      const [clean, result] = [outputOf(x).data, outputOf(spoilt(x, Number.NaN)).data];
      for (let i = 0; i < length; i++) {
        if (i !== hidden) expect(result.subarray(8 * i, 8 * i + 8)).toEqual(clean.subarray(8 * i, 8 * i + 8));
      }
    }
  });

  it('leaves the bits of a shorter sequence', () => {
    const x = numbers(1, 1, length, 8);
    using encoder = new heed.Encoder({ embedDim: 8, numHeads: 2, feedForwardDim: 8, numLayers: 2, seed: 1 });
    const padded = encoder.forward(x, { keyMask: [real.map((_, j) => (j < 7 ? 1 : 0))] }).output;
    const alone = encoder.forward(new Tensor(x.data.slice(0, 56), [7, 8])).output;
    expect(padded.data.slice(0, 56)).toEqual(alone.data);
  });
});

describe('nested masks of numbers', () => {
  const x = draw(1, 2, 3, 4);
  const outputOf = (mask: MaskInput) => [...heed.attention(x, x, x, { mask }).output.data];
  const none = -Infinity;

  it('are added to the scores, like tensors', () => {
    const added = [
      [0, none, none],
      [0.5, 0, none],
      [0, 0, -2],
    ];
    const asTensor = { data: Float32Array.from(added.flat()), shape: [3, 3] };
    expect(outputOf(added)).toEqual(outputOf(asTensor));
    const causal = added.map((row) => row.map((entry) => (entry === none ? none : 0)));
    expect(outputOf(causal)).toEqual([...heed.attention(x, x, x, { causal: true }).output.data]);
    const layer = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2, seed: 1 });
    expect(layer.forward(x, { mask: causal }).output.toArray()).toEqual(
      layer.forward(x, { causal: true }).output.toArray(),
    );
    expect(
      layer
        .forward(x, {
          keyMask: [
            [0, 0, none],
            [0, 0, 0],
          ],
        })
        .output.toArray(),
    ).toEqual(
      layer
        .forward(x, {
          keyMask: [
            [1, 1, 0],
            [1, 1, 1],
          ],
        })
        .output.toArray(),
    );
  });

  it('add nothing if they are zeros in a tensor', () => {
    expect(outputOf({ data: new Float32Array(9), shape: [3, 3] })).toEqual([...heed.attention(x, x, x).output.data]);
  });
});
