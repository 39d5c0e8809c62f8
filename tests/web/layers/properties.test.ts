/** Textbook properties of attention. */
import { flops, type Heed, type Layer, load, Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw, error, rowSums, rows } from './numbers.js';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

const shuffled = [4, 0, 6, 2, 5, 1, 3];

describe('attention', () => {
  it('has rows that sum to one, with entries between 0 and 1', () => {
    const { weights } = heed.attention(draw(1, 2, 9, 4), draw(2, 2, 7, 4), draw(3, 2, 7, 5), { returnWeights: true });
    for (const sum of rowSums(weights)) expect(sum).toBeCloseTo(1, 6);
    expect(weights.data.every((w) => w > 0 && w < 1)).toBe(true);
  });

  it('does not change when keys and values are permuted together, and its weights follow', () => {
    const [q, k, v] = [draw(1, 3, 4), draw(2, 7, 4), draw(3, 7, 5)];
    const before = heed.attention(q, k, v, { returnWeights: true });
    const after = heed.attention(q, rows(k, shuffled), rows(v, shuffled), { returnWeights: true });
    expect(error(after.output, before.output)).toBeLessThan(1);
    for (let i = 0; i < 3; i++) {
      shuffled.forEach((from, to) =>
        expect(after.weights.data[i * 7 + to]).toBeCloseTo(before.weights.data[i * 7 + from]!, 6),
      );
    }
  });

  it('gives averages of the values', () => {
    const v = draw(3, 7, 5);
    const { output } = heed.attention(draw(1, 3, 4), draw(2, 7, 4), v);
    for (let column = 0; column < 5; column++) {
      const values = Array.from({ length: 7 }, (_, row) => v.data[row * 5 + column]!);
      for (let row = 0; row < 3; row++) {
        expect(output.data[row * 5 + column]).toBeGreaterThan(Math.min(...values));
        expect(output.data[row * 5 + column]).toBeLessThan(Math.max(...values));
      }
    }
  });

  it('gives a query without any key zeros in output and weights', () => {
    const mask = [
      [0, 0, 0],
      [1, 0, 1],
    ];
    const { output, weights } = heed.attention(draw(1, 2, 4), draw(2, 3, 4), draw(3, 3, 2), {
      mask,
      returnWeights: true,
    });
    expect([...output.data.subarray(0, 2), ...weights.data.subarray(0, 3)]).toEqual([0, 0, 0, 0, 0]);
    expect(weights.data[4]).toBe(0);
  });

  it('takes masks that say the same to the same result, bit by bit', () => {
    const [q, k, v] = [draw(1, 6, 4), draw(2, 6, 4), draw(3, 6, 4)];
    const named = heed.attention(q, k, v, { causal: true, window: 2, returnWeights: true });
    const joined = heed.masks.and(heed.masks.causal(6), heed.masks.window(6, 2));
    const given = heed.attention(q, k, v, { mask: joined, returnWeights: true });
    expect(given.output.data).toEqual(named.output.data);
    expect(given.weights.data).toEqual(named.weights.data);
  });

  it('is one-to-one with the weights it returns', () => {
    const [q, k, v] = [draw(1, 5, 4), draw(2, 40, 4), draw(3, 40, 3)];
    const shown = heed.attention(q, k, v, { returnWeights: true });
    const hidden = heed.attention(q, k, v);
    expect(hidden.weights).toBeUndefined();
    expect(error(hidden.output, shown.output)).toBeLessThan(1);
  });

  it('drops weights anew for each seed, in the mean not at all', () => {
    const [q, k] = [new Tensor(new Float32Array(4), [1, 4]), new Tensor(new Float32Array(4000), [1000, 4])];
    const v = new Tensor(new Float32Array(1000).fill(1), [1000, 1]);
    const mean = (seed: number) => heed.attention(q, k, v, { dropout: { p: 0.25, seed } }).output.data[0]!;
    expect(mean(1)).toBe(mean(1));
    expect(mean(1)).not.toBe(mean(2));
    // 1000 weights of 1/1000, each kept with probability 3/4 and divided by it: sd = sqrt(p / (1 - p) / 1000).
    const sd = Math.sqrt(0.25 / 0.75 / 1000);
    for (let seed = 0; seed < 20; seed++) expect(Math.abs(mean(seed) - 1)).toBeLessThan(4 * sd);
  });

  it('returns weights from before dropout', () => {
    const [q, k, v] = [draw(1, 3, 4), draw(2, 7, 4), draw(3, 7, 5)];
    const { weights } = heed.attention(q, k, v, { dropout: { p: 0.5, seed: 1 }, returnWeights: true });
    expect(weights.data).toEqual(heed.attention(q, k, v, { returnWeights: true }).weights.data);
  });
});

describe('multi-head attention', () => {
  const options = { embedDim: 12, numHeads: 3, seed: 7 };

  it('permutes its output when the positions of its input are permuted', () => {
    const mha = new heed.MultiHeadAttention(options);
    const x = draw(1, 2, 7, 12);
    expect(error(mha.forward(rows(x, shuffled)).output, rows(mha.forward(x).output, shuffled))).toBeLessThan(1);
  });

  it('no longer does once positions are added', () => {
    const mha = new heed.MultiHeadAttention(options);
    const positions = new heed.PositionalEncoding({ embedDim: 12, maxLength: 7 });
    const x = draw(1, 2, 7, 12);
    const apart = error(
      mha.forward(positions.forward(rows(x, shuffled))).output,
      rows(mha.forward(positions.forward(x)).output, shuffled),
    );
    expect(apart).toBeGreaterThan(100);
  });

  it('lets every output depend on every input, and on no later one when causal', () => {
    const mha = new heed.MultiHeadAttention(options);
    const x = draw(1, 7, 12);
    for (const causal of [false, true]) {
      const before = mha.forward(x, { causal }).output;
      for (let changed = 0; changed < 7; changed++) {
        const other = new Tensor(x.data.slice(), x.shape);
        other.data[changed * 12] += 1;
        const after = mha.forward(other, { causal }).output;
        for (let row = 0; row < 7; row++) {
          const same = after.data
            .subarray(row * 12, row * 12 + 12)
            .every((value, i) => value === before.data[row * 12 + i]);
          expect(same, `causal ${causal}: row ${row} when ${changed} changes`).toBe(causal && row < changed);
        }
      }
    }
  });

  it('gives a sequence the same bits alone and beside others', () => {
    const mha = new heed.MultiHeadAttention(options);
    const x = draw(1, 5, 9, 12);
    const together = mha.forward(x).output;
    for (let n = 0; n < 5; n++) {
      const alone = mha.forward(new Tensor(x.data.slice(n * 108, (n + 1) * 108), [9, 12])).output;
      expect(alone.data).toEqual(together.data.slice(n * 108, (n + 1) * 108));
    }
  });

  it('does not see padding', () => {
    const mha = new heed.MultiHeadAttention(options);
    const x = draw(1, 1, 9, 12);
    const short = mha.forward(rows(x, [0, 1, 2, 3])).output;
    const padded = mha.forward(x, { keyMask: [[1, 1, 1, 1, 0, 0, 0, 0, 0]] }).output;
    expect(error(rows(padded, [0, 1, 2, 3]), short)).toBeLessThan(1);
  });
});

describe('dropout', () => {
  const ones = () => new Tensor(new Float32Array(1_000_000).fill(1), [1000, 1000]);

  it.each([0.1, 0.5, 0.9])('of rate %d keeps 1 - rate of a million entries, within four sigma', (p) => {
    for (const seed of [0, 1, 12345]) {
      const kept = heed.dropout(ones(), { p, seed, scaling: 'none' }).data.reduce((sum, z) => sum + z, 0);
      expect(Math.abs(kept - 1e6 * (1 - p))).toBeLessThan(4 * Math.sqrt(1e6 * p * (1 - p)));
    }
  });

  it('divides what it keeps by 1 - p, or leaves it', () => {
    const x = draw(1, 50, 20);
    const inverted = heed.dropout(x, { p: 0.2, seed: 1 });
    const plain = heed.dropout(x, { p: 0.2, seed: 1, scaling: 'none' });
    for (let i = 0; i < 1000; i++) {
      expect([0, x.data[i]]).toContain(plain.data[i]);
      expect(inverted.data[i]).toBeCloseTo(plain.data[i]! / 0.8, 6);
    }
  });

  it('repeats itself for one seed and differs for another', () => {
    const x = draw(1, 50, 20);
    expect(heed.dropout(x, { p: 0.5, seed: 1 }).data).toEqual(heed.dropout(x, { p: 0.5, seed: 1 }).data);
    expect(heed.dropout(x, { p: 0.5, seed: 1 }).data).not.toEqual(heed.dropout(x, { p: 0.5, seed: 2 }).data);
    expect(heed.dropout(x, { p: 0.5 }).data).not.toEqual(heed.dropout(x, { p: 0.5 }).data);
  });

  it('as a layer draws anew on each call in training, and is the identity in evaluation', () => {
    const [a, b] = [1, 2].map(() => new heed.Dropout({ p: 0.5, seed: 9 }));
    const x = draw(1, 50, 20);
    expect(a!.forward(x).data).toEqual(x.data);
    a!.train();
    b!.train();
    const first = a!.forward(x).data;
    expect(first).not.toEqual(x.data);
    expect(b!.forward(x).data).toEqual(first);
    expect(a!.forward(x).data).not.toEqual(first);
    expect(a!.eval().forward(x).data).toEqual(x.data);
  });

  it('draws in every layer that has it, in training only', () => {
    const x = draw(1, 2, 7, 12);
    const sizes = { embedDim: 12, numHeads: 3, feedForwardDim: 16, dropout: 0.3, seed: 5 };
    const layers: (Layer & { forward(x: Tensor): Tensor | { output: Tensor } })[] = [
      new heed.MultiHeadAttention({ embedDim: 12, numHeads: 3, dropout: 0.3, seed: 5 }),
      new heed.EncoderLayer(sizes),
      new heed.Encoder({ ...sizes, numLayers: 2 }),
      new heed.FeedForward({ embedDim: 12, feedForwardDim: 16, dropout: 0.3, seed: 5 }),
    ];
    const outputOf = (result: Tensor | { output: Tensor }) => ('output' in result ? result.output : result).data;
    for (const layer of layers) {
      const still = outputOf(layer.forward(x));
      expect(outputOf(layer.forward(x))).toEqual(still);
      layer.train();
      const drawn = outputOf(layer.forward(x));
      expect(drawn).not.toEqual(still);
      expect(outputOf(layer.forward(x))).not.toEqual(drawn);
      layer.eval();
      expect(outputOf(layer.forward(x))).toEqual(still);
    }
  });
});

describe('positions', () => {
  it('have large dot products near, small ones far', () => {
    const { data } = heed.positionalEncoding(200, 64);
    const dot = (i: number, j: number) =>
      Array.from({ length: 64 }, (_, c) => data[i * 64 + c]! * data[j * 64 + c]!).reduce((a, b) => a + b, 0);
    expect(dot(50, 50)).toBeCloseTo(32, 4); // sin^2 + cos^2 summed over 32 frequencies
    expect(dot(50, 51)).toBeGreaterThan(dot(50, 60));
    expect(dot(50, 60)).toBeGreaterThan(dot(50, 150));
  });

  it('turned by rotary embedding keep their length, and their products depend on the distance alone', () => {
    for (const pairing of ['half-split', 'interleaved'] as const) {
      const [q, k] = [draw(1, 1, 8), draw(2, 1, 8)];
      const at = (x: Tensor, firstPosition: number) => heed.rotary(x, { pairing, firstPosition }).data;
      const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
      expect(dot(at(q, 17), at(q, 17))).toBeCloseTo(dot(q.data, q.data), 5);
      expect(dot(at(q, 3), at(k, 8))).toBeCloseTo(dot(at(q, 40), at(k, 45)), 5);
      expect(dot(at(q, 3), at(k, 8))).not.toBeCloseTo(dot(at(q, 3), at(k, 9)), 3);
    }
  });
});

describe('normalization', () => {
  it('of layers gives each position mean 0 and variance 1, whatever the batch', () => {
    const x = draw(1, 4, 64);
    const { data } = heed.layerNorm(x);
    for (let row = 0; row < 4; row++) {
      const values = data.subarray(row * 64, row * 64 + 64);
      expect(values.reduce((a, b) => a + b, 0)).toBeCloseTo(0, 4);
      expect(values.reduce((a, b) => a + b * b, 0) / 64).toBeCloseTo(1, 3);
      expect(heed.layerNorm(rows(x, [row])).data).toEqual(values.slice());
    }
  });

  it('of batches with the averages of this batch gives each feature mean 0 and variance 1', () => {
    const x = draw(1, 50, 3);
    const column = (data: Float32Array, c: number) => Array.from({ length: 50 }, (_, row) => data[row * 3 + c]!);
    const mean = [0, 1, 2].map((c) => column(x.data, c).reduce((a, b) => a + b, 0) / 50);
    const variance = [0, 1, 2].map((c) => column(x.data, c).reduce((a, b) => a + (b - mean[c]!) ** 2, 0) / 50);
    const norm = new heed.BatchNorm({ numFeatures: 3, eps: 1e-12 });
    norm.loadStateDict({ weight: [1, 1, 1], bias: [0, 0, 0], running_mean: mean, running_var: variance });
    const { data } = norm.forward(x);
    for (const c of [0, 1, 2]) {
      expect(column(data, c).reduce((a, b) => a + b, 0) / 50).toBeCloseTo(0, 5);
      expect(column(data, c).reduce((a, b) => a + b * b, 0) / 50).toBeCloseTo(1, 5);
    }
  });
});

describe('cost', () => {
  it('counts parameters as PyTorch does', () => {
    expect(new heed.Linear({ inFeatures: 5, outFeatures: 3 }).parameterCount).toBe(18);
    expect(new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2 }).parameterCount).toBe(288);
    expect(new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 16 }).parameterCount).toBe(600);
    expect(new heed.BatchNorm({ numFeatures: 3 }).parameterCount).toBe(6);
    expect(new heed.Dropout({ p: 0.5 }).parameterCount).toBe(0);
  });

  it('counts two flops for each multiplication of a matrix product', () => {
    const [L, S, E, F] = [10, 6, 8, 16];
    expect(new heed.Linear({ inFeatures: 5, outFeatures: 3 }).flops(L)).toBe(2 * L * 15);
    const mha = new heed.MultiHeadAttention({ embedDim: E, numHeads: 2 });
    expect(mha.flops(L)).toBe(8 * L * E * E + 4 * L * L * E);
    expect(mha.flops(L, { keyLength: S })).toBe(4 * L * E * E + 4 * S * E * E + 4 * L * S * E);
    expect(mha.flops(L, { causal: true })).toBe(8 * L * E * E + 4 * ((L * (L + 1)) / 2) * E);
    expect(mha.flops(L, { window: 0 })).toBe(8 * L * E * E + 4 * L * E);
    expect(new heed.MultiHeadAttention({ embedDim: E, numHeads: 3, keyDim: 2, valueDim: 5 }).flops(L)).toBe(
      2 * L * E * (6 + 6 + 15 + 15) + 2 * L * L * (6 + 15),
    );
    const layer = { embedDim: E, numHeads: 2, feedForwardDim: F };
    const one = 8 * L * E * E + 4 * L * L * E + 4 * L * E * F;
    expect(new heed.EncoderLayer(layer).flops(L)).toBe(one);
    expect(new heed.Encoder({ ...layer, numLayers: 3, finalNorm: true }).flops(L)).toBe(3 * one);
    const decoder = one + 4 * L * E * E + 4 * S * E * E + 4 * L * S * E;
    expect(new heed.DecoderLayer(layer).flops(L, { keyLength: S })).toBe(decoder);
    const encoderOfSource = 8 * S * E * E + 4 * S * S * E + 4 * S * E * F;
    expect(
      new heed.Transformer({ ...layer, numEncoderLayers: 1, numDecoderLayers: 1 }).flops(L, { keyLength: S }),
    ).toBe(encoderOfSource + decoder);
    // In a Transformer, only the decoder is causal.
    const transformer = new heed.Transformer({ ...layer, numEncoderLayers: 1, numDecoderLayers: 2 });
    const difference = transformer.flops(L, { keyLength: S }) - transformer.flops(L, { keyLength: S, causal: true });
    expect(difference).toBe(2 * 4 * ((L * (L - 1)) / 2) * E);
    expect(new heed.PositionalEncoding({ embedDim: 8, maxLength: 10, learned: true }).flops(L)).toBe(0);
    expect(new heed.LayerNorm({ normalizedShape: 8 }).flops(L)).toBe(0);
  });

  it('compares four layers of the same width', () => {
    const cost = flops(100, { dim: 16, keyDim: 8, valueDim: 4, kernelSize: 5 });
    expect(cost.attention.parameters).toBe(2 * 16 * 8 + 16 * 4);
    expect(cost.convolution).toMatchObject({ flops: 2 * 100 * 5 * 16 * 4, parameters: 5 * 16 * 4 });
    expect(cost.recurrent).toMatchObject({ flops: 2 * 100 * 4 * 20, parameters: 16 * 4 + 4 * 4 });
    expect(cost.dense).toMatchObject({ flops: 2 * 100 * 100 * 16 * 4, parameters: 100 * 16 * 4 });
    // The cost of attention grows quadratically with the length, that of a convolution linearly.
    const [long, short] = [flops(20_000, { dim: 16 }), flops(10_000, { dim: 16 })];
    expect(long.attention.flops / short.attention.flops).toBeGreaterThan(3.9);
    expect(long.convolution.flops / short.convolution.flops).toBe(2);
    expect(() => (heed as unknown as { flops: object }).flops).toThrow(
      "heed.flops: import `flops` from 'heed' instead",
    );
  });

  it('prints a summary', () => {
    const summary = new heed.LayerNorm({ normalizedShape: 300 }).summary(7);
    expect(summary).toBe(
      [
        'LayerNorm',
        '  parameter  shape  count',
        '  weight     [300]    300',
        '  bias       [300]    300',
        '600 parameters, 2,400 bytes',
        '0 flops at length 7',
      ].join('\n'),
    );
  });
});
