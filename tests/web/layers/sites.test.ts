/**
 * Reading and editing sites of layers, compared with forward hooks on PyTorch's encoder and with the definitions of the
 * sites.
 */
import { readFileSync } from 'node:fs';
import { load, type NestedNumbers, Tensor } from 'heed';
import { describe, expect, test } from 'vitest';
import { expectClose } from '../models/fixtures.js';

interface Group {
  options: { numLayers: number; normFirst: boolean };
  state: Record<string, NestedNumbers>;
  x: NestedNumbers;
  cases: { edit: { site: string }; output: number[][][] }[];
}

const groups = JSON.parse(
  readFileSync(new URL('../../fixtures/layers/sites.json', import.meta.url), 'utf8'),
) as Group[];
const flat = (values: number[][][]) => ({ data: Float32Array.from(values.flat(2)), shape: [2, 4, 8] });
const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 12, numLayers: 2, dropout: 0, seed: 1 };
const tensorOf = (nested: NestedNumbers): Tensor => {
  const shape: number[] = [];
  for (let at = nested; Array.isArray(at); at = at[0]!) shape.push(at.length);
  return new Tensor(Float32Array.from([nested].flat(4) as number[]), shape);
};

describe.each(groups)("hooks on PyTorch's encoder, $options.normFirst", ({ options, state, x, cases }) => {
  test.each(cases.map((each) => [JSON.stringify(each.edit), each] as const))('%s', async (_, { edit, output }) => {
    const heed = await load();
    using encoder = new heed.Encoder(options as never);
    encoder.loadStateDict(Object.fromEntries(Object.entries(state).map(([name, value]) => [name, tensorOf(value)])));
    const input = tensorOf(x);
    expectClose(encoder.forward(input, { edit: [edit] }).output, flat(output));
    if (options.normFirst) return;
    // Also with single layers.
    const [, layer, site] = edit.site.split('.');
    let rows: Tensor = input;
    for (let i = 0; i < options.numLayers; i++) {
      const { numLayers: _, finalNorm: __, ...sizes } = options as unknown as Record<string, unknown>;
      using one = new heed.EncoderLayer(sizes as never);
      const prefix = `layers.${i}.`;
      const own = Object.entries(state).filter(([name]) => name.startsWith(prefix));
      one.loadStateDict(Object.fromEntries(own.map(([name, value]) => [name.slice(prefix.length), tensorOf(value)])));
      rows = one.forward(rows, i === Number(layer) ? { edit: [{ ...edit, site: site! }] } : {}).output;
    }
    expectClose(rows, flat(output));
  });
});

test('the shapes of sites, batched and not', async () => {
  const heed = await load();
  using encoder = new heed.Encoder({ ...sizes, keyDim: 3, valueDim: 5 });
  const x = new Tensor(new Float32Array(2 * 4 * 8).fill(0.5), [2, 4, 8]);
  const { activations } = encoder.forward(x, {
    read: ['layers.*.queries', 'layers.1.values', 'layers.0.hidden', 'output'],
  });
  const shapes = Object.entries(activations!).map(([name, { shape }]) => [name, shape]);
  expect(Object.fromEntries(shapes)).toEqual({
    'layers.0.queries': [2, 2, 4, 3],
    'layers.1.queries': [2, 2, 4, 3],
    'layers.1.values': [2, 2, 4, 5],
    'layers.0.hidden': [2, 4, 12],
    output: [2, 4, 8],
  });
  const one = encoder.forward(x.at<Tensor>(0), { read: ['layers.0.weights', 'embeddings'] }).activations!;
  expect(one['layers.0.weights']!.shape).toEqual([2, 4, 4]);
  expect(one.embeddings!.shape).toEqual([4, 8]);
  expect(one.embeddings!.data).toEqual(x.at<Tensor>(0).data);
});

test('cross-attention: keys have their own rows', async () => {
  const heed = await load();
  using attention = new heed.MultiHeadAttention({ embedDim: 6, numHeads: 2, seed: 2 });
  const draw = (n: number) => Float32Array.from({ length: n }, (_, i) => Math.sin(7 * i + n));
  const query = new Tensor(draw(2 * 3 * 6), [2, 3, 6]);
  const key = new Tensor(draw(2 * 5 * 6), [2, 5, 6]);
  const read = ['queries', 'keys', 'values', 'scores', 'weights', 'heads', 'attention'];
  const { output, weights, activations } = attention.forward(query, { key, returnWeights: true, read });
  const a = activations!;
  expect(read.map((site) => a[site]!.shape)).toEqual([
    [2, 2, 3, 3],
    [2, 2, 5, 3],
    [2, 2, 5, 3],
    [2, 2, 3, 5],
    [2, 2, 3, 5],
    [2, 2, 3, 3],
    [2, 3, 6],
  ]);
  expect(a.weights!.data).toEqual(weights.data);
  expect(a.attention!.data).toEqual(output.data);
  expectClose(heed.softmax(a.scores!), weights);
  // Computes the result without the weight of key 4.
  const edit = [{ site: 'weights', keys: [4], positions: [1], set: 0 }];
  const edited = attention.forward(query, { key, returnWeights: true, edit });
  expect(edited.weights.at<number>(1, 0, 1, 4)).toBe(0);
  expect(edited.weights.at<number>(1, 0, 2, 4)).toBe(weights.at<number>(1, 0, 2, 4));
  expect(edited.output.at<Tensor>(1, 1).data).not.toEqual(output.at<Tensor>(1, 1).data);
  expect(edited.output.at<Tensor>(1, 2).data).toEqual(output.at<Tensor>(1, 2).data);
  expect(() => attention.forward(query, { key, edit: [{ site: 'keys', positions: [5], set: 0 }] })).toThrow(
    'from 0 to 4',
  );
  expect(() => attention.forward(query, { key, edit: [{ site: 'attention', heads: [0], set: 0 }] })).toThrow(
    /edit\[0\].heads: expected one of the axes of 'attention' \(texts, positions\), got 'heads'/,
  );
  expect(() => attention.forward(query, { read: ['hidden'] })).toThrow(/expected a site: one of queries, /);
});

test('masks hide keys whatever their scores; a row of scores alone is changed', async () => {
  const heed = await load();
  using layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 12, seed: 3 });
  const x = new Tensor(
    Float32Array.from({ length: 32 }, (_, i) => Math.cos(i)),
    [1, 4, 8],
  );
  const edit = [{ site: 'scores', positions: [2], set: 0 }];
  const plain = layer.forward(x, { causal: true, returnWeights: true });
  const { weights } = layer.forward(x, { causal: true, returnWeights: true, edit });
  expect([...weights.at<Tensor>(0, 1, 2).data].map((w) => w.toFixed(4))).toEqual([
    '0.3333',
    '0.3333',
    '0.3333',
    '0.0000',
  ]);
  expect(weights.at<Tensor>(0, 1, 3).data).toEqual(plain.weights.at<Tensor>(0, 1, 3).data);
});

test('the head mask lies before `heads`', async () => {
  const heed = await load();
  using layer = new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 12, seed: 3 });
  const x = new Tensor(
    Float32Array.from({ length: 32 }, (_, i) => Math.cos(i)),
    [1, 4, 8],
  );
  const { activations } = layer.forward(x, {
    headMask: [0, 1],
    read: ['heads'],
    edit: [{ site: 'weights', scale: 1 }],
  });
  expect(activations!.heads!.at<Tensor>(0, 0).data.every((value) => value === 0)).toBe(true);
  expect(activations!.heads!.at<Tensor>(0, 1).data.some((value) => value !== 0)).toBe(true);
});
