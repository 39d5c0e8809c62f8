/**
 * Dropout depends only on the seed and an entry's index, so it is the same in every build and if entries are skipped.
 */
import { type Heed, load, type Tensor } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let builds: Heed[];
beforeAll(async () => {
  builds = await Promise.all((['simd128', 'relaxed-simd'] as const).map((build) => load({ build })));
});
afterAll(() => {
  for (const heed of builds) heed.dispose();
});

const identity = (size: number) =>
  Array.from({ length: size }, (_, i) => Array.from({ length: size }, (_, j) => +(i === j)));
const rows = (length: number, width: number) =>
  Array.from({ length }, (_, i) => Array.from({ length: width }, (_, k) => Math.sin(i * width + k)));
const dropped = (x: Tensor) => Array.from(x.data, (value) => value === 0);

describe('dropout', () => {
  it.each([1, 4, 5, 6, 7, 30, 37])('drops the same of %i queries in both builds', (length) => {
    const x = rows(length, 4);
    // With the identity as values, the output is the attention weights after dropout.
    const draw = (heed: Heed) =>
      dropped(heed.attention(x, x, identity(length), { dropout: { p: 0.5, seed: 11 } }).output);
    expect(draw(builds[0]!)).toEqual(draw(builds[1]!));
    const flat = (heed: Heed) => dropped(heed.dropout(x, { p: 0.3, seed: 5 }));
    expect(flat(builds[0]!)).toEqual(flat(builds[1]!));
  });

  it('drops the same weights when masks, causality or a window skip keys', () => {
    const length = 29;
    const x = rows(length, 4);
    const dropout = { p: 0.5, seed: 3 };
    for (const heed of builds) {
      const all = heed.attention(x, x, identity(length), { dropout }).output;
      const mask = [Array.from({ length }, (_, j) => +(j % 4 !== 1))];
      for (const options of [{ causal: true }, { window: 2 }, { mask }, { mask, causal: true }]) {
        const { output, weights } = heed.attention(x, x, identity(length), {
          ...options,
          dropout,
          returnWeights: true,
        });
        weights!.data.forEach((weight, at) => {
          if (weight !== 0) expect(output.data[at] === 0).toBe(all.data[at] === 0);
        });
      }
    }
  });

  it('of a layer in training is the same in both builds, and anew in each call', () => {
    const options = { embedDim: 12, numHeads: 3, feedForwardDim: 20, dropout: 0.4, seed: 9 };
    const [first, second] = builds.map((heed) => {
      using layer = new heed.EncoderLayer(options).train();
      return [layer.forward(rows(11, 12)).output, layer.forward(rows(11, 12)).output];
    });
    for (const call of [0, 1]) {
      first![call]!.data.forEach((value, i) => {
        expect(second![call]!.data[i]).toBeCloseTo(value, 4);
      });
    }
    expect(first![0]!.data).not.toEqual(first![1]!.data);
  });

  it('at a rate of 1 gives zeros', () => {
    for (const heed of builds) {
      expect(heed.dropout([1, -2, 3], { p: 1 }).data).toEqual(new Float32Array(3));
      expect(heed.dropout([1, -2, 3], { p: 1, scaling: 'none' }).data).toEqual(new Float32Array(3));
      using layer = new heed.Dropout({ p: 1 }).train();
      expect(layer.forward([[1, 2]]).data).toEqual(new Float32Array(2));
      expect(layer.eval().forward([[1, 2]]).data).toEqual(new Float32Array([1, 2]));
      const x = rows(3, 2);
      expect(heed.attention(x, x, x, { dropout: { p: 1, seed: 1 } }).output.data).toEqual(new Float32Array(6));
    }
  });
});
