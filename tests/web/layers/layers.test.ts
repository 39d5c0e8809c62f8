// Properties of the layers: modes, state dicts, initial values, masks. fixtures.test.ts compares their values with
// PyTorch's.
import { type Heed, type Layer, load, type StateDict, Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

function numbers(...shape: number[]): Tensor {
  const length = shape.reduce((a, b) => a * b, 1);
  return new Tensor(
    Float32Array.from({ length }, (_, i) => Math.sin(i * 12.9898 + length)),
    shape,
  );
}

function close(actual: Tensor, expected: Tensor): void {
  expect(actual.shape).toEqual(expected.shape);
  for (const [i, value] of expected.data.entries()) {
    expect(Math.abs(actual.data[i]! - value)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(value));
  }
}

const shapes = (state: StateDict) =>
  Object.fromEntries(Object.entries(state).map(([name, { shape }]) => [name, shape]));

/** Every layer with parameters, small. */
const makers: Record<string, (seed?: number) => Layer> = {
  Linear: (seed = 1) => new heed.Linear({ inFeatures: 3, outFeatures: 2, seed }),
  LayerNorm: (seed = 1) => new heed.LayerNorm({ normalizedShape: 4, seed }),
  BatchNorm: (seed = 1) => new heed.BatchNorm({ numFeatures: 4, seed }),
  PositionalEncoding: (seed = 1) => new heed.PositionalEncoding({ embedDim: 4, maxLength: 6, learned: true, seed }),
  FeedForward: (seed = 1) => new heed.FeedForward({ embedDim: 4, feedForwardDim: 8, seed }),
  MultiHeadAttention: (seed = 1) => new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2, seed }),
  EncoderLayer: (seed = 1) => new heed.EncoderLayer({ embedDim: 4, numHeads: 2, feedForwardDim: 8, seed }),
  Encoder: (seed = 1) =>
    new heed.Encoder({ embedDim: 4, numHeads: 2, feedForwardDim: 8, numLayers: 2, finalNorm: true, seed }),
  DecoderLayer: (seed = 1) => new heed.DecoderLayer({ embedDim: 4, numHeads: 2, feedForwardDim: 8, seed }),
  Decoder: (seed = 1) => new heed.Decoder({ embedDim: 4, numHeads: 2, feedForwardDim: 8, numLayers: 2, seed }),
  Transformer: (seed = 1) =>
    new heed.Transformer({
      embedDim: 4,
      numHeads: 2,
      feedForwardDim: 8,
      numEncoderLayers: 1,
      numDecoderLayers: 1,
      seed,
    }),
};

describe.each(Object.keys(makers))('%s', (name) => {
  const make = makers[name]!;

  it('starts in evaluation mode, switches, and chains', () => {
    using layer = make();
    expect(layer.training).toBe(false);
    expect(layer.train()).toBe(layer);
    expect(layer.training).toBe(true);
    expect(layer.eval().training).toBe(false);
  });

  it('starts from its seed', () => {
    using a = make(5);
    using b = make(5);
    using c = make(6);
    expect(a.stateDict()).toEqual(b.stateDict());
    if (!name.endsWith('Norm')) expect(a.stateDict()).not.toEqual(c.stateDict());
  });

  it('takes back what stateDict gave', () => {
    using a = make(5);
    using b = make(6);
    expect(b.loadStateDict(a.stateDict())).toBe(b);
    expect(b.stateDict()).toEqual(a.stateDict());
    const sizes = Object.entries(a.stateDict()).map(([key, { data }]) => (key.startsWith('running') ? 0 : data.length));
    expect(a.parameterCount).toBe(sizes.reduce((x, y) => x + y, 0));
  });

  it('is of its class, by name', () => {
    using layer = make();
    const Class = (heed as unknown as Record<string, new () => Layer>)[name]!;
    expect(layer).toBeInstanceOf(Class);
    expect(Class.name).toBe(name);
  });

  it('lists all that does not fit in a state dict, and changes nothing', () => {
    using layer = make();
    const before = layer.stateDict();
    const [first, ...rest] = Object.keys(before);
    const wrong: Record<string, Tensor> = { ...before, extra: numbers(1) };
    delete wrong[first!];
    const last = rest.at(-1);
    if (last) wrong[last] = numbers(1, 1, 1);
    for (const key of rest.slice(0, -1)) wrong[key] = numbers(...before[key]!.shape);
    expect(() => layer.loadStateDict(wrong)).toThrow(
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(
          new RegExp(
            `missing '${first}' \\[.*unexpected 'extra'${last ? `; misshapen '${last}' \\(expected \\[.*\\], got \\[1, 1, 1\\]\\)` : ''}`,
          ),
        ),
      }),
    );
    expect(layer.stateDict()).toEqual(before);
  });
});

describe('initial values', () => {
  const largest = (t: Tensor) => t.data.reduce((a, b) => Math.max(a, Math.abs(b)), 0);

  it('of Linear are uniform in +-1/sqrt(in)', () => {
    using layer = new heed.Linear({ inFeatures: 16, outFeatures: 500, seed: 1 });
    const { weight, bias } = layer.stateDict();
    for (const t of [weight!, bias!]) {
      expect(largest(t)).toBeLessThanOrEqual(0.25);
      expect(largest(t)).toBeGreaterThan(0.24);
    }
    const variance = weight!.data.reduce((sum, w) => sum + w * w, 0) / weight!.data.length;
    expect(variance).toBeCloseTo(0.25 ** 2 / 3, 3);
  });

  it('of MultiHeadAttention are Xavier-uniform, biases zero', () => {
    using layer = new heed.MultiHeadAttention({ embedDim: 64, numHeads: 4 });
    const state = layer.stateDict();
    const bound = Math.sqrt(6 / (4 * 64));
    expect(largest(state.in_proj_weight!)).toBeLessThanOrEqual(bound);
    expect(largest(state.in_proj_weight!)).toBeGreaterThan(0.99 * bound);
    expect(largest(state.in_proj_bias!)).toBe(0);
    expect(largest(state['out_proj.weight']!)).toBeLessThanOrEqual(1 / 8);
    expect(largest(state['out_proj.bias']!)).toBe(0);
  });

  it('of the norms are ones and zeros', () => {
    using layer = new heed.BatchNorm({ numFeatures: 2 });
    const state = layer.stateDict();
    expect(Object.values(state).map((t) => t.toArray())).toEqual([
      [1, 1],
      [0, 0],
      [0, 0],
      [1, 1],
    ]);
    expect(layer.parameterCount).toBe(4);
  });

  it('of the Transformer are Xavier-uniform throughout', () => {
    using layer = new heed.Transformer({
      embedDim: 32,
      numHeads: 4,
      feedForwardDim: 64,
      numEncoderLayers: 1,
      numDecoderLayers: 1,
    });
    const bound = Math.sqrt(6 / 96);
    const weight = layer.stateDict()['encoder.layers.0.linear1.weight']!;
    expect(largest(weight)).toBeLessThanOrEqual(bound);
    expect(largest(weight)).toBeGreaterThan(0.98 * bound);
  });
});

describe('MultiHeadAttention', () => {
  it('has PyTorch names and shapes, packed or apart', () => {
    using packed = new heed.MultiHeadAttention({ embedDim: 6, numHeads: 2 });
    expect(shapes(packed.stateDict())).toEqual({
      in_proj_weight: [18, 6],
      in_proj_bias: [18],
      'out_proj.weight': [6, 6],
      'out_proj.bias': [6],
    });
    using apart = new heed.MultiHeadAttention({
      embedDim: 6,
      numHeads: 2,
      keyDim: 5,
      valueDim: 4,
      keyInputDim: 3,
      valueInputDim: 7,
    });
    expect(shapes(apart.stateDict())).toEqual({
      q_proj_weight: [10, 6],
      k_proj_weight: [10, 3],
      v_proj_weight: [8, 7],
      in_proj_bias: [28],
      'out_proj.weight': [6, 8],
      'out_proj.bias': [6],
    });
  });

  it('loads separate projections into a packed layer', () => {
    using a = new heed.MultiHeadAttention({ embedDim: 2, numHeads: 1 });
    using b = new heed.MultiHeadAttention({ embedDim: 2, numHeads: 1 });
    const { in_proj_weight, ...rest } = a.stateDict();
    const rows = in_proj_weight!.toArray() as number[][];
    b.loadStateDict({
      ...rest,
      q_proj_weight: rows.slice(0, 2),
      k_proj_weight: rows.slice(2, 4),
      v_proj_weight: rows.slice(4),
    });
    expect(b.stateDict()).toEqual(a.stateDict());
    expect(() =>
      b.loadStateDict({ ...rest, q_proj_weight: rows.slice(0, 2), k_proj_weight: rows, v_proj_weight: rows }),
    ).toThrow(expect.objectContaining({ code: 'SHAPE_MISMATCH' }));
    expect(b.stateDict()).toEqual(a.stateDict());
  });

  it('loads a packed projection into a layer that keeps them apart', () => {
    using layer = new heed.MultiHeadAttention({ embedDim: 2, numHeads: 1, keyDim: 3, valueDim: 1 });
    const before = layer.stateDict();
    const { q_proj_weight, k_proj_weight, v_proj_weight, ...rest } = before;
    const rows = [q_proj_weight!, k_proj_weight!, v_proj_weight!].flatMap((t) => t.toArray() as number[][]);
    layer.loadStateDict({ ...rest, in_proj_weight: rows.map((row) => row.map((x) => 2 * x)) });
    expect(layer.stateDict().k_proj_weight!.data).toEqual(k_proj_weight!.data.map((x) => 2 * x));
    expect(layer.stateDict().v_proj_weight!.data).toEqual(v_proj_weight!.data.map((x) => 2 * x));
    expect(() => layer.loadStateDict({ ...rest, in_proj_weight: rows.slice(1) })).toThrow(
      expect.objectContaining({ code: 'SHAPE_MISMATCH' }),
    );
  });

  it('takes one sequence without the batch axis', () => {
    using mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2 });
    const x = numbers(1, 3, 4);
    const batched = mha.forward(x, { returnWeights: true });
    const single = mha.forward({ data: x.data, shape: [3, 4] }, { returnWeights: true });
    expect(batched.weights.shape).toEqual([1, 2, 3, 3]);
    expect(single.output.shape).toEqual([3, 4]);
    expect(single.weights.shape).toEqual([2, 3, 3]);
    expect(single.output.data).toEqual(batched.output.data);
    const average = mha.forward({ data: x.data, shape: [3, 4] }, { returnWeights: true, averageWeights: true }).weights;
    expect(average.shape).toEqual([3, 3]);
    expect(mha.forward(x, { averageWeights: true }).weights.data).toEqual(average.data);
    expect(mha.forward(x, { returnWeights: true, averageWeights: false }).weights.shape).toEqual([1, 2, 3, 3]);
    expect(average.data[1]).toBeCloseTo((single.weights.data[1]! + single.weights.data[10]!) / 2, 6);
  });

  it('key defaults to the query, value to the key', () => {
    using mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2 });
    const [x, memory] = [numbers(2, 3, 4), numbers(2, 5, 4)];
    expect(mha.forward(x).output.data).toEqual(mha.forward(x, { key: x, value: x }).output.data);
    expect(mha.forward(x, { key: memory }).output.data).toEqual(
      mha.forward(x, { key: memory, value: memory }).output.data,
    );
  });

  it('a key mask, a padding mask and a shorter text agree', () => {
    using mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2 });
    const x = numbers(2, 3, 4);
    const byKeys = mha.forward(x, {
      keyMask: [
        [1, 1, 0],
        [1, 1, 1],
      ],
      returnWeights: true,
    });
    const byMask = mha.forward(x, { mask: heed.masks.padding([2, 3], 3), returnWeights: true });
    expect(byKeys.weights.data).toEqual(byMask.weights.data);
    const alone = mha.forward({ data: x.data.slice(0, 8), shape: [2, 4] }).output;
    close({ data: byKeys.output.data.slice(0, 8), shape: [2, 4] } as Tensor, alone);
  });

  it('a fully masked query gives the output bias alone', () => {
    using mha = new heed.MultiHeadAttention({ embedDim: 2, numHeads: 1, bias: false });
    const { output, weights } = mha.forward(numbers(1, 2, 2), { keyMask: [[0, 0]], returnWeights: true });
    expect([...output.data, ...weights.data]).toEqual(new Array(8).fill(0));
  });

  it('the head mask switches heads off after the weights', () => {
    using mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2, bias: false });
    const x = numbers(1, 3, 4);
    const plain = mha.forward(x, { returnWeights: true });
    const off = mha.forward(x, { headMask: [0, 0], returnWeights: true });
    expect(off.weights.data).toEqual(plain.weights.data);
    expect(off.output.data.every((value) => value === 0)).toBe(true);
    const [first, second] = [
      mha.forward(x, { headMask: [1, 0] }).output.data,
      mha.forward(x, { headMask: [[0, 1]] }).output.data,
    ];
    close({ data: first.map((value, i) => value + second[i]!), shape: [1, 3, 4] } as Tensor, plain.output);
  });

  it('dropout in training leaves the returned weights as they are', () => {
    using mha = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2, dropout: 0.5, seed: 9 });
    const x = numbers(1, 16, 4);
    const plain = mha.forward(x, { returnWeights: true });
    mha.train();
    const [a, b] = [mha.forward(x, { returnWeights: true }), mha.forward(x, { returnWeights: true })];
    expect(a.weights.data).toEqual(plain.weights.data);
    expect(a.output.data).not.toEqual(plain.output.data);
    expect(a.output.data).not.toEqual(b.output.data);
    expect(mha.eval().forward(x).output.data).toEqual(plain.output.data);
  });
});

describe('Dropout', () => {
  it('draws anew on each call in training, from its seed, and is the identity in evaluation', () => {
    using a = new heed.Dropout({ p: 0.5, seed: 2 });
    using b = new heed.Dropout({ p: 0.5, seed: 2 });
    const x = new Tensor(new Float32Array(64).fill(1), [64]);
    expect(a.forward(x).data).toEqual(x.data);
    a.train();
    b.train();
    const first = a.forward(x).data;
    expect(a.forward(x).data).not.toEqual(first);
    expect(b.forward(x).data).toEqual(first);
    expect(new Set(first)).toEqual(new Set([0, 2]));
    expect(a.parameterCount).toBe(0);
    expect(a.stateDict()).toEqual({});
    using none = new heed.Dropout({ p: 0.5, scaling: 'none' }).train();
    expect(new Set(none.forward(x).data)).toEqual(new Set([0, 1]));
  });
});

describe('PositionalEncoding', () => {
  it('adds or appends', () => {
    const table = heed.positionalEncoding(3, 4).data;
    const x = numbers(2, 3, 4);
    using add = new heed.PositionalEncoding({ embedDim: 4 });
    expect(add.parameterCount).toBe(0);
    close(add.forward(x), { data: x.data.map((value, i) => value + table[i % 12]!), shape: [2, 3, 4] } as Tensor);
    using concat = new heed.PositionalEncoding({ embedDim: 4, mode: 'concat' });
    const wide = concat.forward(numbers(2, 3, 2));
    expect(wide.shape).toEqual([2, 3, 6]);
    expect(wide.data.slice(6, 8)).toEqual(numbers(2, 3, 2).data.slice(2, 4));
    expect(wide.data.slice(8, 12)).toEqual(table.slice(4, 8));
  });

  it('refuses a longer sequence', () => {
    using layer = new heed.PositionalEncoding({ embedDim: 4, maxLength: 2 });
    expect(() => layer.forward(numbers(3, 4))).toThrow(expect.objectContaining({ code: 'SHAPE_MISMATCH' }));
  });
});
