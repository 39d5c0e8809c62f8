/** Sizes at which a product of two counts exceeds the 32 bits of WebAssembly's indices. */
import { type Heed, load, Tensor } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ramp = (rows: number, width: number) => {
  const data = new Float32Array(rows * width);
  for (let i = 0; i < data.length; ++i) data[i] = (i % 1009) - 504;
  return new Tensor(data, [rows, width]);
};
const rowOf = (x: Tensor, i: number) => {
  const width = x.shape.at(-1)!;
  return new Tensor(x.data.slice(i * width, (i + 1) * width), [1, width]);
};
const differing = (a: Float32Array, b: Float32Array) => a.reduce((count, x, i) => count + Number(x !== b[i]), 0);

describe.each(['simd128', 'relaxed-simd'] as const)('large sizes, %s', (build) => {
  let heed: Heed;
  beforeAll(async () => {
    heed = await load({ build });
  });
  afterAll(() => heed.dispose());

  it.each([2 ** 19 - 1, 2 ** 19, 600_000, 2 ** 20])('linear reaches each of %i rows', (rows) => {
    const identity = [
      [1, 0, 0, 0],
      [0, 1, 0, 0],
      [0, 0, 1, 0],
      [0, 0, 0, 1],
    ];
    const x = ramp(rows, 4);
    expect(differing(heed.linear(x, { weight: identity }).data, x.data)).toBe(0);
  });

  it('a linear layer, layer norm, softmax and a feed-forward layer give a row the same bits in 2^20 rows as alone', () => {
    const rows = 2 ** 20;
    const x = ramp(rows, 2);
    using linear = new heed.Linear({ inFeatures: 2, outFeatures: 3, activation: 'gelu', seed: 1 });
    using feedForward = new heed.FeedForward({ embedDim: 2, feedForwardDim: 4, seed: 2 });
    const calls = [
      (t: Tensor) => linear.forward(t),
      (t: Tensor) => feedForward.forward(t),
      (t: Tensor) => heed.layerNorm(t),
      (t: Tensor) => heed.softmax(t),
    ];
    for (const call of calls) {
      const all = call(x);
      for (const row of [0, 1, 2 ** 18 + 1, 2 ** 19, 2 ** 20 - 1])
        expect(rowOf(all, row).data).toEqual(call(rowOf(x, row)).data);
    }
  });

  it('attention reaches each of 150,000 queries, and masks reach each of 150,000 keys', () => {
    const length = 150_000;
    const long = ramp(length, 2);
    const short = ramp(3, 2);
    const all = heed.attention(long, short, short, { scale: 0.01 }).output;
    for (const i of [0, 103_000, length - 1])
      expect(rowOf(all, i).data).toEqual(heed.attention(rowOf(long, i), short, short, { scale: 0.01 }).output.data);
    const mask = new Tensor(new Uint8Array(length), [1, length]);
    mask.data[length - 2] = 1;
    const { output, weights } = heed.attention(short, long, long, { mask, returnWeights: true });
    for (let i = 0; i < 3; ++i) {
      expect(rowOf(output, i).data).toEqual(rowOf(long, length - 2).data);
      expect(rowOf(weights!, i).data[length - 2]).toBe(1);
    }
    const windowed = heed.attention(long, long, long, { window: 1 }).output;
    expect(windowed.data.every(Number.isFinite)).toBe(true);
  });

  it('rotary positions up to 2^31 - 2', () => {
    const x = ramp(4, 2);
    for (const firstPosition of [100_000, 2 ** 30 - 1, 2 ** 31 - 5]) {
      const rotated = heed.rotary(x, { firstPosition });
      for (let i = 0; i < 4; i++) {
        const [a, b] = [x.data[2 * i]!, x.data[2 * i + 1]!];
        const [cos, sin] = [Math.cos(firstPosition + i), Math.sin(firstPosition + i)];
        const close = (column: number, exact: number) =>
          expect(Math.abs(rotated.data[2 * i + column]! - exact)).toBeLessThan(1e-5 + 1e-4 * Math.abs(exact));
        close(0, a * cos - b * sin);
        close(1, a * sin + b * cos);
      }
    }
    expect(() => heed.rotary(x, { firstPosition: 2 ** 31 - 4 })).toThrow(
      /^firstPosition: expected an integer from 0 to/,
    );
  });
});
