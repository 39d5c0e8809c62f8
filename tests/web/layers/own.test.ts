/**
 * Custom models: Sequential and Embedding without heed/train, queries, keys, values and hidden states, initial values,
 * console output.
 */
import { inspect } from 'node:util';
import { load, type Tensor } from 'heed';
import { load as loadTraining } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw, error } from './numbers.js';

let heed: Awaited<ReturnType<typeof load>>;
beforeAll(async () => {
  heed = await load();
});

const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 16 };
const parts = (of: Pick<typeof heed, 'Embedding' | 'Encoder' | 'Linear'>) => [
  new of.Embedding({ numEmbeddings: 10, embedDim: 8 }),
  new of.Encoder({ ...sizes, numLayers: 2 }),
  new of.Linear({ inFeatures: 8, outFeatures: 10 }),
];

describe('Embedding', () => {
  it('looks up rows, as heed/train does', async () => {
    const table = new heed.Embedding({ numEmbeddings: 5, embedDim: 3, seed: 1 });
    const { weight } = table.stateDict();
    const result = table.forward([
      [4, 0],
      [2, 2],
    ]);
    expect(result.toArray()).toEqual(
      [
        [4, 0],
        [2, 2],
      ].map((row) => row.map((id) => (weight!.at(id) as Tensor).toArray())),
    );
    const training = await loadTraining();
    expect(new training.Embedding({ numEmbeddings: 5, embedDim: 3, seed: 1 }).stateDict()).toEqual(table.stateDict());
    expect(() => table.forward([[5]])).toThrow('ids: expected ids from 0 to 4, got 5 at position 0');
    expect(() => table.forward([[0.5]])).toThrow('expected integers, got 0.5');
    expect(table.forward([1]).shape).toEqual([1, 3]);
  });
});

describe('Sequential', () => {
  it('is one part after the other, with the names of PyTorch', async () => {
    const [table, encoder, head] = parts(heed);
    const model = new heed.Sequential([table!, encoder!, (x) => x, head!], { seed: 1 });
    const ids = [[1, 2, 3]];
    const inner = (encoder as InstanceType<typeof heed.Encoder>).forward(
      (table as InstanceType<typeof heed.Embedding>).forward(ids),
    );
    const expected = (head as InstanceType<typeof heed.Linear>).forward(inner.output);
    expect(model.forward(ids)).toEqual(expected);
    const state = model.stateDict();
    expect(Object.keys(state)).toEqual(expect.arrayContaining(['0.weight', '1.layers.1.norm2.bias', '3.bias']));
    expect(model.parameterCount).toBe(table!.parameterCount + encoder!.parameterCount + head!.parameterCount);
    const other = new heed.Sequential([...parts(heed).slice(0, 2), (x) => x, parts(heed)[2]!]).loadStateDict(state);
    expect(other.forward(ids)).toEqual(expected);
    expect(() => other.loadStateDict({ ...state, '3.bias': [1] })).toThrow("'3.bias' (expected [10], got [1])");
    expect(other.forward(ids)).toEqual(expected);
    model.dispose();
    expect(model.disposed).toBe(true);
    expect(() => model.forward(ids)).toThrow('Embedding: used after dispose()');
  });

  it('draws the initial values that heed/train draws from the same seed', async () => {
    const training = await loadTraining();
    const ours = new heed.Sequential(parts(heed), { seed: 3 }).stateDict();
    expect(new training.Sequential(parts(training as never), { seed: 3 }).stateDict()).toEqual(ours);
    const seeded = new heed.Linear({ inFeatures: 2, outFeatures: 2, seed: 5 });
    const before = seeded.stateDict();
    new heed.Sequential([seeded], { seed: 1 });
    expect(seeded.stateDict()).toEqual(before);
    const loaded = new heed.Linear({ inFeatures: 2, outFeatures: 2 }).loadStateDict(before);
    new heed.Sequential([loaded], { seed: 1 });
    expect(loaded.stateDict()).toEqual(before);
  });

  it('refuses what is no part, and options', () => {
    expect(() => new heed.Sequential([1 as never])).toThrow('Sequential: layers[0]: expected a layer');
    const model = new heed.Sequential([new heed.Dropout()]);
    const forward = model.forward as (x: number[], options: object) => Tensor;
    expect(() => forward.call(model, [1], { backward: true })).toThrow('heed/train');
    expect(model.train().training).toBe(true);
    expect(model.eval().forward([1]).toArray()).toEqual([1]);
  });
});

describe('read, of layers of one’s own', () => {
  it('gives Q, K, V, weights and hidden states that satisfy the formulas', () => {
    const layer = new heed.EncoderLayer({ ...sizes, dropout: 0, seed: 1 });
    const state = layer.stateDict();
    const x = draw(1, 5, 8);
    const { output, activations } = layer.forward(x, {
      read: ['queries', 'keys', 'values', 'weights', 'heads', 'hidden', 'output'],
    });
    const [q, k, v] = ['queries', 'keys', 'values'].map((name) => activations![name]!);
    // Q = x W^T + b; head h has the columns h Dk to (h + 1) Dk.
    const packed = heed.linear(x, {
      weight: state['self_attn.in_proj_weight']!,
      bias: state['self_attn.in_proj_bias']!,
    });
    [q, k, v].forEach((part, i) => {
      expect(part!.shape).toEqual([2, 5, 4]);
      for (const [h, l, d] of [
        [0, 0, 0],
        [1, 4, 3],
        [1, 2, 0],
      ] as const)
        expect(part!.at<number>(h, l, d)).toBeCloseTo(packed.at<number>(l, 8 * i + 4 * h + d), 5);
    });
    const scores = heed.matmul(q!, heed.transpose(k!));
    const weights = heed.softmax({ data: scores.data.map((s) => s / 2), shape: scores.shape });
    expect(error(weights, activations!.weights!)).toBeLessThan(1);
    expect(error(heed.matmul(weights, v!), activations!.heads!)).toBeLessThan(1);
    expect(activations!.hidden!.shape).toEqual([5, 16]);
    expect(activations!.output).toEqual(output);
    const encoder = new heed.Encoder({ ...sizes, numLayers: 3, seed: 1 });
    const all = encoder.forward(x, { read: ['embeddings', 'layers.*.output', 'layers.1.queries'] });
    expect(Object.keys(all.activations!)).toHaveLength(5);
    expect(all.activations!['layers.2.output']).toEqual(all.output);
    const attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2, keyDim: 3, seed: 1 });
    expect(attention.forward(x, { read: ['keys'] }).activations!.keys!.shape).toEqual([2, 5, 3]);
  });
});

describe('initial values', () => {
  const largest = ({ data }: Tensor) => data.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  /**
   * For many uniform numbers in ±bound, the largest is near the bound, and the mean square is a third of the bound's
   * square.
   */
  const expectUniform = (tensor: Tensor, bound: number) => {
    expect(largest(tensor)).toBeLessThanOrEqual(bound * (1 + 1e-6));
    expect(largest(tensor)).toBeGreaterThan(0.97 * bound);
    const square = tensor.data.reduce((sum, value) => sum + value ** 2, 0) / tensor.data.length;
    expect(square / (bound ** 2 / 3)).toBeGreaterThan(0.85);
    expect(square / (bound ** 2 / 3)).toBeLessThan(1.15);
  };

  it('are those of PyTorch’s constructors', () => {
    const linear = new heed.Linear({ inFeatures: 64, outFeatures: 512, seed: 1 }).stateDict();
    expectUniform(linear.weight!, 1 / 8); // kaiming_uniform_(a = sqrt 5) is ±1 / sqrt(in)
    expectUniform(linear.bias!, 1 / 8);
    const attention = new heed.MultiHeadAttention({ embedDim: 64, numHeads: 4, seed: 1 }).stateDict();
    expectUniform(attention.in_proj_weight!, Math.sqrt(6 / (64 + 3 * 64))); // xavier_uniform_ for the packed matrix
    expect(largest(attention.in_proj_bias!)).toBe(0);
    expectUniform(attention['out_proj.weight']!, 1 / 8);
    expect(largest(attention['out_proj.bias']!)).toBe(0);
    const separate = new heed.MultiHeadAttention({ embedDim: 64, numHeads: 4, keyInputDim: 32, seed: 1 }).stateDict();
    expectUniform(separate.k_proj_weight!, Math.sqrt(6 / (64 + 32)));
    const { weight } = new heed.Embedding({ numEmbeddings: 100, embedDim: 100, seed: 1 }).stateDict();
    expect(weight!.data.reduce((sum, value) => sum + value ** 2, 0) / 1e4).toBeCloseTo(1, 1);
    expect(largest(weight!)).toBeGreaterThan(3);
    const norm = new heed.LayerNorm({ normalizedShape: 4 }).stateDict();
    expect([norm.weight!.toArray(), norm.bias!.toArray()]).toEqual([
      [1, 1, 1, 1],
      [0, 0, 0, 0],
    ]);
    const transformer = new heed.Transformer({
      ...sizes,
      embedDim: 64,
      numEncoderLayers: 1,
      numDecoderLayers: 1,
      seed: 1,
    });
    expectUniform(transformer.stateDict()['encoder.layers.0.linear1.weight']!, Math.sqrt(6 / (64 + 16)));
  });
});

describe('console.log', () => {
  it('shows layers with the widths that hold, and models part by part', () => {
    expect(inspect(new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2, rotary: {} }))).toBe(
      "MultiHeadAttention { embedDim: 8, numHeads: 2, keyDim: 4, valueDim: 4, rotary: { dim: 4, base: 10000, pairing: 'half-split' }, keyInputDim: 8, valueInputDim: 8, bias: true, activation: 'identity', dropout: 0 }, 288 parameters",
    );
    const model = new heed.Sequential([
      new heed.Embedding({ numEmbeddings: 10, embedDim: 8 }),
      new heed.Sequential([new heed.Dropout()]),
    ]);
    expect(inspect(model)).toBe(
      "Sequential {\n  0: Embedding { numEmbeddings: 10, embedDim: 8 }, 80 parameters\n  1: Sequential {\n    0: Dropout { p: 0.5, scaling: 'inverted' }, 0 parameters\n  }, 0 parameters\n}, 80 parameters",
    );
  });
});
