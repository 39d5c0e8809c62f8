/**
 * Properties of gradients for any numbers: exact zeros, sums and orthogonality that follow from the formulas, sums over
 * micro-batches.
 */
import { load, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw, error, rowSums, rows, scaled } from '../layers/numbers.js';
import {
  type AnyLayer,
  countedIds,
  type Differentiable,
  gradients,
  makeLayer,
  type Options,
  type Values,
} from './support.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const KEY_MASK = [
  [1, 1, 0, 1, 0, 0, 0],
  [0, 0, 0, 0, 0, 0, 0],
  [0, 1, 1, 1, 1, 1, 1],
];

/** Whether each row of the second last axis is exactly 0. */
function zeroRows({ data, shape }: Values): boolean[] {
  const width = shape.at(-1)!;
  return Array.from({ length: data.length / width }, (_, r) =>
    data.subarray(r * width, (r + 1) * width).every((value) => value === 0),
  );
}

describe('what is masked', () => {
  it('gets gradients of exactly 0 from attention', () => {
    const [q, k, v] = [draw(1, 3, 5, 4), draw(2, 3, 7, 4), draw(3, 3, 7, 6)];
    const mask = KEY_MASK.map((keys) => [keys]);
    const { backward } = heed.attention(q, k, v, { mask, backward: true });
    const { inputs } = backward(draw(4, 3, 5, 6));
    const off = KEY_MASK.flat().map((allowed) => allowed === 0);
    expect(zeroRows(inputs.key!)).toEqual(off);
    expect(zeroRows(inputs.value!)).toEqual(off);
    // The second sequence's queries have no key at all.
    expect(zeroRows(inputs.query!)).toEqual(Array.from({ length: 15 }, (_, row) => row >= 5 && row < 10));
  });

  it('gets gradients of exactly 0 from multi-head attention, and later keys from causal queries', () => {
    const mha = new heed.MultiHeadAttention({ embedDim: 6, numHeads: 2, seed: 1 });
    const [query, key, value] = [draw(1, 3, 4, 6), draw(2, 3, 7, 6), draw(3, 3, 7, 6)];
    const { backward } = mha.forward(query, { key, value, keyMask: KEY_MASK, causal: true, backward: true });
    const { inputs } = backward(draw(4, 3, 4, 6));
    const off = KEY_MASK.flatMap((keys) => keys.map((allowed, j) => allowed === 0 || j >= 4));
    expect(zeroRows(inputs.key!)).toEqual(off);
    expect(zeroRows(inputs.value!)).toEqual(off);
    mha.dispose();
  });

  it('gets gradients of exactly 0 where it is an additive mask of -inf, and outside the window', () => {
    const mask = draw(5, 6, 6);
    mask.data.set([Number.NEGATIVE_INFINITY], 8); // row 1, column 2
    const { backward } = heed.attention(draw(1, 6, 3), draw(2, 6, 3), draw(3, 6, 3), {
      mask,
      window: 2,
      backward: true,
    });
    const gradient = backward(draw(4, 6, 3)).inputs.mask!;
    for (let i = 0; i < 6; i++) {
      for (let j = 0; j < 6; j++)
        expect(gradient.data[6 * i + j] === 0, `[${i}, ${j}]`).toBe(Math.abs(i - j) > 2 || (i === 1 && j === 2));
    }
  });

  it('does not change the gradients of the rest: padding is as if it were not there', () => {
    const layer = new heed.EncoderLayer({ embedDim: 6, numHeads: 2, feedForwardDim: 7, seed: 2 });
    const [x, cotangent] = [draw(1, 1, 9, 6), draw(2, 1, 9, 6)];
    cotangent.data.fill(0, 5 * 6);
    const first = [0, 1, 2, 3, 4];
    const padded = layer.forward(x, { keyMask: [[1, 1, 1, 1, 1, 0, 0, 0, 0]], backward: true }).backward(cotangent);
    const alone = layer.forward(rows(x, first), { backward: true }).backward(rows(cotangent, first));
    expect(error(rows(padded.inputs.x!, first), alone.inputs.x!)).toBeLessThan(1);
    expect(zeroRows(padded.inputs.x!).slice(5)).toEqual([true, true, true, true]);
    for (const [name, gradient] of Object.entries(alone.parameters))
      expect(error(padded.parameters[name]!, gradient), name).toBeLessThan(1);
    layer.dispose();
  });
});

describe('softmax', () => {
  it.each([1, 7, 8, 9, 13, 130])('of rows of %d has gradients whose rows sum to 0', (n) => {
    const { backward } = heed.softmax(scaled(draw(1, 9, n), 4), { backward: true });
    for (const sum of rowSums(backward(draw(2, 9, n)).inputs.x!)) expect(Math.abs(sum)).toBeLessThan(1e-6);
  });

  it('in attention has gradients of the scores whose rows sum to 0', () => {
    const mask = draw(5, 2, 9, 13);
    const { backward } = heed.attention(draw(1, 2, 9, 4), draw(2, 2, 13, 4), draw(3, 2, 13, 4), {
      mask,
      backward: true,
    });
    for (const sum of rowSums(backward(draw(4, 2, 9, 4)).inputs.mask!)) expect(Math.abs(sum)).toBeLessThan(2e-6);
  });
});

describe('the gradient of a norm', () => {
  it.each([7, 8, 9, 13, 130])('over %d features is at right angles to 1 and to what it returned', (n) => {
    const x = scaled(draw(1, 5, n), 3, 1);
    const weight = draw(2, n);
    const normalized = heed.layerNorm(x, { eps: 1e-12 }).data;
    const dx = heed.layerNorm(x, { weight, eps: 1e-12, backward: true }).backward(draw(3, 5, n)).inputs.x!;
    const products = { data: dx.data.map((value, i) => value * normalized[i]!), shape: dx.shape } as Tensor;
    for (const sum of [...rowSums(dx), ...rowSums(products)]) expect(Math.abs(sum)).toBeLessThan(2e-5);
  });

  it('of batches in training is, for each feature', () => {
    const norm = new heed.BatchNorm({ numFeatures: 3, eps: 1e-12, seed: 1 }).train();
    const x = scaled(draw(1, 7, 13, 3), 2, 1);
    const { output, backward } = norm.forward(x, { backward: true });
    const dx = backward(draw(2, 7, 13, 3)).inputs.x!;
    for (const feature of [0, 1, 2]) {
      const column = ({ data }: Values) => data.filter((_, i) => i % 3 === feature);
      const outputs = column(output);
      const sum = (values: Float32Array) => Math.abs(values.reduce((a, b) => a + b, 0));
      expect(sum(column(dx))).toBeLessThan(2e-5);
      expect(sum(column(dx).map((value, i) => value * outputs[i]!))).toBeLessThan(2e-5);
    }
    norm.dispose();
  });
});

/** Every layer, with options for which it has all possible parameters, and its arguments. */
const SIZES = { embedDim: 6, numHeads: 2, feedForwardDim: 7, activation: 'gelu', dropout: 0 };
const layers: [name: string, options: Options, given: unknown[]][] = [
  ['Linear', { inFeatures: 3, outFeatures: 5 }, [draw(1, 4, 3)]],
  ['LayerNorm', { normalizedShape: 5 }, [draw(1, 4, 5)]],
  ['BatchNorm', { numFeatures: 5 }, [draw(1, 4, 5)]],
  ['FeedForward', { embedDim: 5, feedForwardDim: 7, activation: 'gelu' }, [draw(1, 4, 5)]],
  ['FeedForward', { embedDim: 5, feedForwardDim: 7, activation: 'silu', gated: true }, [draw(1, 4, 5)]],
  ['PositionalEncoding', { embedDim: 5, maxLength: 7, learned: true }, [draw(1, 2, 7, 5)]],
  ['PositionalEncoding', { embedDim: 5, maxLength: 7, learned: true, mode: 'concat' }, [draw(1, 2, 7, 5)]],
  ['Embedding', { numEmbeddings: 6, embedDim: 5 }, [countedIds([2, 3])]],
  ['MultiHeadAttention', { embedDim: 6, numHeads: 2 }, [draw(1, 2, 5, 6)]],
  ['MultiHeadAttention', { embedDim: 6, numHeads: 2, keyDim: 5, valueDim: 4, activation: 'tanh' }, [draw(1, 2, 5, 6)]],
  ...[false, true].flatMap((normFirst): [string, Options, unknown[]][] => [
    ['EncoderLayer', { ...SIZES, normFirst }, [draw(1, 2, 5, 6)]],
    ['EncoderLayer', { ...SIZES, normFirst, gated: true, rotary: { dim: 2 } }, [draw(1, 2, 5, 6)]],
    ['Encoder', { ...SIZES, normFirst, numLayers: 3, finalNorm: true }, [draw(1, 2, 5, 6)]],
    ['DecoderLayer', { ...SIZES, normFirst }, [draw(1, 2, 5, 6), draw(2, 2, 7, 6)]],
    ['Decoder', { ...SIZES, normFirst, numLayers: 2, finalNorm: true }, [draw(1, 2, 5, 6), draw(2, 2, 7, 6)]],
    [
      'Transformer',
      { ...SIZES, normFirst, numEncoderLayers: 2, numDecoderLayers: 2 },
      [draw(1, 2, 5, 6), draw(2, 2, 7, 6)],
    ],
  ]),
];

describe.each(layers)('%s %j', (name, options, given) => {
  /**
   * Biases of keys are excluded: they add the same value to all scores of a query, which the softmax ignores, unless
   * the projections have an activation.
   */
  const ignored = (parameter: string, i: number, { length }: Float32Array) =>
    parameter.endsWith('in_proj_bias') && options.keyDim === undefined && i >= length / 3 && i < (2 * length) / 3;

  it('has a nonzero gradient for every entry of every parameter, and a gradient in training as well', () => {
    const layer = makeLayer(heed, name, { ...options, seed: 3 });
    for (const backward of [true, false]) {
      if (!backward) layer.train();
      const found = backward ? direct(layer, given) : fromLoss(layer, given);
      for (const [parameter, { data }] of Object.entries(found)) {
        const zeros = data.findIndex((value, i) => value === 0 && !ignored(parameter, i, data));
        expect(zeros, `the first zero in the gradient of ${parameter}`).toBe(-1);
      }
    }
    layer.dispose();
  });

  it('lists all its parameters, which are the keys of its state', () => {
    const layer = makeLayer(heed, name, options);
    const listed = [...layer.parameters()];
    const state = layer.stateDict();
    const trained = Object.keys(state).filter((key) => !key.startsWith('running_'));
    expect(listed.map((parameter) => parameter.name)).toEqual(trained);
    for (const { name: key, shape, value, grad, requiresGrad } of listed) {
      expect([...shape]).toEqual([...state[key]!.shape]);
      expect(value.data).toEqual(state[key]!.data);
      expect(grad).toBeNull();
      expect(requiresGrad).toBe(true);
    }
    layer.dispose();
  });
});

const outputOf = (result: unknown) => (result as { output?: Tensor }).output ?? (result as Tensor);

function direct(layer: AnyLayer, given: unknown[]): Record<string, Tensor> {
  const { output, backward } = layer.forward(...given, { backward: true }) as Differentiable;
  return backward(draw(9, ...output.shape)).parameters;
}

function fromLoss(layer: AnyLayer, given: unknown[]): Record<string, Tensor> {
  const output = outputOf(layer.forward(...given));
  heed.losses.mse(output, draw(9, ...output.shape)).backward();
  return gradients(layer);
}

describe('gradients add up', () => {
  const make = () =>
    new heed.Sequential(
      [
        new heed.Embedding({ numEmbeddings: 11, embedDim: 6 }),
        new heed.PositionalEncoding({ embedDim: 6, maxLength: 8, learned: true }),
        new heed.Encoder({ ...SIZES, activation: 'gelu', numLayers: 2 }),
        new heed.Linear({ inFeatures: 6, outFeatures: 5 }),
      ],
      { seed: 4 },
    ).train();
  const ids = Array.from({ length: 12 }, (_, n) => Array.from({ length: 7 }, (_, i) => (n * n + 3 * i) % 11));
  const labels = ids.map((row) => row.map((id) => id % 5));

  it('over micro-batches to those of the whole batch', () => {
    const model = make();
    const whole = heed.losses.crossEntropy(model.forward(ids), labels);
    whole.backward();
    const expected = gradients(model as unknown as AnyLayer);
    for (const parts of [2, 3, 12]) {
      const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
      optimizer.zeroGrad();
      let mean = 0;
      for (let part = 0; part < parts; part++) {
        const range = [(part * 12) / parts, ((part + 1) * 12) / parts] as const;
        const loss = heed.losses.crossEntropy(model.forward(ids.slice(...range)), labels.slice(...range));
        loss.backward();
        mean += loss.item() / parts;
      }
      expect(mean).toBeCloseTo(whole.item(), 5);
      for (const [name, sum] of Object.entries(gradients(model as unknown as AnyLayer)))
        expect(error(scaled(sum, 1 / parts), expected[name]!), `${name} in ${parts} parts`).toBeLessThan(1);
    }
    model.dispose();
  });

  it('over losses, in whatever order they are differentiated', () => {
    const model = make();
    const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
    const sums = [false, true].map((reversed) => {
      optimizer.zeroGrad();
      const output = model.forward(ids);
      const losses = [
        heed.losses.crossEntropy(output, labels),
        heed.losses.mse(output, draw(1, 12, 7, 5)),
        heed.losses.crossEntropy(model.forward(ids.slice(0, 3)), labels.slice(0, 3)),
      ];
      for (const loss of reversed ? losses.reverse() : losses) loss.backward();
      return gradients(model as unknown as AnyLayer);
    });
    for (const [name, gradient] of Object.entries(sums[0]!))
      expect(error(sums[1]![name]!, gradient), name).toBeLessThan(1);
    model.dispose();
  });

  it('over layers that are called one by one as in a Sequential', () => {
    const model = make();
    const parts = [
      new heed.Embedding({ numEmbeddings: 11, embedDim: 6 }),
      new heed.PositionalEncoding({ embedDim: 6, maxLength: 8, learned: true }),
      new heed.Encoder({ ...SIZES, activation: 'gelu', numLayers: 2 }),
      new heed.Linear({ inFeatures: 6, outFeatures: 5 }),
    ].map((layer) => layer as unknown as AnyLayer);
    const state = Object.entries(model.stateDict());
    for (const [i, layer] of parts.entries()) {
      const own = state.filter(([name]) => name.startsWith(`${i}.`)).map(([name, value]) => [name.slice(2), value]);
      layer.loadStateDict(Object.fromEntries(own));
      layer.train();
    }
    heed.losses.crossEntropy(model.forward(ids), labels).backward();
    const output = parts.reduce<unknown>((x, layer) => outputOf(layer.forward(x)), ids);
    heed.losses.crossEntropy(output as Tensor, labels).backward();
    const expected = gradients(model as unknown as AnyLayer);
    for (const [i, layer] of parts.entries()) {
      for (const [name, gradient] of Object.entries(gradients(layer)))
        expect(gradient).toEqual(expected[`${i}.${name}`]);
      layer.dispose();
    }
    model.dispose();
  });
});
