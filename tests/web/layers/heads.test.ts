/** Head importance and pruning. */
import { type Heed, headImportance, load } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw, error } from './numbers.js';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

describe('heads', () => {
  it('computes a head that is switched off as if it were pruned', () => {
    for (const more of [
      {},
      { bias: false },
      { keyDim: 5, valueDim: 3 },
      { activation: 'tanh' as const },
      { keyInputDim: 4, valueInputDim: 6 },
    ]) {
      const mha = new heed.MultiHeadAttention({ embedDim: 12, numHeads: 4, seed: 3, ...more });
      const x = draw(1, 2, 7, 12);
      const across = 'keyInputDim' in more ? { key: draw(2, 2, 5, 4), value: draw(3, 2, 5, 6) } : {};
      const smaller = mha.prune([0, 2]);
      const masked = mha.forward(x, { ...across, headMask: [0, 1, 0, 1], returnWeights: true });
      const pruned = smaller.forward(x, { ...across, returnWeights: true });
      expect(error(pruned.output, masked.output)).toBeLessThan(1);
      expect(pruned.weights.shape[1]).toBe(2);
      expect(smaller.parameterCount).toBeLessThan(mha.parameterCount);
    }
  });

  it('prunes one head at a time as it prunes two at once', () => {
    const mha = new heed.MultiHeadAttention({ embedDim: 12, numHeads: 4, seed: 3 });
    const x = draw(1, 2, 7, 12);
    expect(mha.prune([1]).prune([1]).forward(x).output.data).toEqual(mha.prune([1, 2]).forward(x).output.data);
    expect(error(mha.prune([]).forward(x).output, mha.forward(x).output)).toBeLessThan(1);
  });

  it('prunes an encoder layer', () => {
    for (const normFirst of [false, true]) {
      const layer = new heed.EncoderLayer({ embedDim: 12, numHeads: 3, feedForwardDim: 20, normFirst, seed: 4 });
      const x = draw(1, 2, 7, 12);
      expect(error(layer.prune([1]).forward(x).output, layer.forward(x, { headMask: [1, 0, 1] }).output)).toBeLessThan(
        1,
      );
    }
  });

  it('ranks heads by what masking them changes', async () => {
    const mha = new heed.MultiHeadAttention({ embedDim: 12, numHeads: 4, seed: 3 });
    const state = mha.stateDict();
    const out = state['out_proj.weight']!;
    // Head h uses the columns 3h, 3h + 1, 3h + 2 of out_proj: set those of head 1 to zero, scale up those of head 2.
    for (let row = 0; row < 12; row++) {
      for (let column = 3; column < 6; column++) out.data[row * 12 + column] = 0;
      for (let column = 6; column < 9; column++) out.data[row * 12 + column]! *= 10;
    }
    mha.loadStateDict(state);
    const x = draw(1, 2, 7, 12);
    const ranked = await headImportance(4, (headMask) => mha.forward(x, { headMask }).output);
    expect(ranked[0]!.head).toBe(2);
    expect(ranked[3]).toEqual({ head: 1, change: 0 });
    const encoder = new heed.Encoder({ embedDim: 12, numHeads: 4, feedForwardDim: 8, numLayers: 2, seed: 1 });
    const loss = (headMask: number[][]) =>
      encoder.forward(x, { headMask }).output.data.reduce((sum, value) => sum + value ** 4, 0);
    const byLoss = await headImportance([2, 4], loss);
    expect(byLoss).toHaveLength(8);
    const off = Array.from({ length: 2 }, (_, layer) =>
      Array.from({ length: 4 }, (_, head) => (layer === byLoss[0]!.layer && head === byLoss[0]!.head ? 0 : 1)),
    );
    expect(byLoss[0]!.change).toBe(loss(off) - loss([new Array(4).fill(1), new Array(4).fill(1)]));
    await expect(headImportance([1, 2, 4] as never, loss)).rejects.toThrow(
      'headImportance: shape: expected a number of heads, or [layers, heads], got an array of 3',
    );
  });

  it('prunes an encoder, layer by layer', () => {
    for (const more of [
      {},
      { normFirst: true, finalNorm: true, rotary: {} },
      { keyDim: 5, valueDim: 3, bias: false },
    ]) {
      using encoder = new heed.Encoder({
        embedDim: 12,
        numHeads: 3,
        feedForwardDim: 20,
        numLayers: 3,
        seed: 4,
        ...more,
      });
      const x = draw(1, 2, 7, 12);
      const keyMask = [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0, 0],
      ];
      using smaller = encoder.prune([[1], [], [0, 2]]);
      const headMask = [
        [1, 0, 1],
        [1, 1, 1],
        [0, 1, 0],
      ];
      const masked = encoder.forward(x, { headMask, keyMask, returnWeights: true });
      const pruned = smaller.forward(x, { keyMask, returnWeights: true });
      expect(error(pruned.output, masked.output)).toBeLessThan(1);
      expect(pruned.weights.map(({ shape }) => shape[1])).toEqual([2, 3, 1]);
      expect(smaller.parameterCount).toBeLessThan(encoder.parameterCount);
      expect(smaller.flops(7)).toBeLessThan(encoder.flops(7));
      expect(smaller).toBeInstanceOf(heed.Encoder);

      // The remaining heads can be masked, pruned again, saved and loaded.
      const further = smaller.forward(x, { headMask: [[0, 1], [1, 1, 0], [1]], keyMask }).output;
      using smallest = smaller.prune([[0], [2], []]);
      expect(error(smallest.forward(x, { keyMask }).output, further)).toBeLessThan(1);
      expect(smallest.loadStateDict(smallest.stateDict()).forward(x, { keyMask }).output.data).toEqual(
        smallest.forward(x, { keyMask }).output.data,
      );
      expect(() => smaller.forward(x, { headMask: [[0, 1], [1, 1], [1]] })).toThrow(
        /Encoder\.forward\.headMask: expected rows of 2, 3, 1 factors, one per layer, got \[2\] for layer 1/,
      );
      expect(() =>
        smaller.forward(x, {
          headMask: [
            [0, 1],
            [1, 1, 1],
          ],
        }),
      ).toThrow(/headMask: expected rows of .* factors, one per layer, got \[\] for layer 2/);
    }
  });

  it('refuses to prune what is not there', () => {
    using encoder = new heed.Encoder({ embedDim: 12, numHeads: 3, feedForwardDim: 20, numLayers: 2, seed: 4 });
    expect(() => encoder.prune([[1]])).toThrow(/Encoder\.prune: heads: expected 2 lists, one for each layer, got 1/);
    expect(() => encoder.prune([[], [3]])).toThrow(/heads\[1\]\[0\]: expected an integer from 0 to 2, got 3/);
    expect(() => encoder.prune([[0, 1, 2], []])).toThrow(/heads\[0\]: expected .*, got all 3 heads/);
    expect(() => encoder.prune([[0], 1 as unknown as number[]])).toThrow(
      /heads\[1\]: expected an array of head indices, got 1/,
    );
  });

  it('keeps class and mode of what it prunes', () => {
    const sizes = { embedDim: 12, numHeads: 3, feedForwardDim: 20, seed: 4 };
    using attention = new heed.MultiHeadAttention({ embedDim: 12, numHeads: 3 }).train();
    using layer = new heed.EncoderLayer(sizes);
    expect(attention.prune([0])).toBeInstanceOf(heed.MultiHeadAttention);
    expect(attention.prune([0]).training).toBe(true);
    expect(layer.prune([0])).toBeInstanceOf(heed.EncoderLayer);
    expect(layer.prune([0]).training).toBe(false);
  });
});
