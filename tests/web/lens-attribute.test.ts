/**
 * `attribute` of heed/lens: comparison with gradients of the reference models in float64, properties, rejected calls.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, type Tensor } from 'heed';
import { attribute } from 'heed/lens';
import {
  type ForwardResult,
  type Loss,
  load as loadTraining,
  type TrainableModel,
  type TrainingHeed,
} from 'heed/train';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectClose, fixtures } from './models/fixtures.js';
import { tinyModel } from './models/tiny.js';

interface Case {
  folder: string;
  attributions: Record<'gradientTimesInput' | 'integratedGradients', number[]>;
}
const expected = JSON.parse(readFileSync(join(fixtures, 'lens.json'), 'utf8')) as {
  clean: number[];
  /** Number of steps of integrated gradients. */
  steps: number;
  cases: Case[];
};
const clean = { inputIds: [expected.clean] };

let heed: TrainingHeed;
const models = new Map<string, TrainableModel>();
const modelOf = async (name: string) => {
  const model = models.get(name) ?? (await heed.fromPretrained(tinyModel(name), { trainable: true }));
  models.set(name, model);
  return model;
};
beforeAll(async () => {
  heed = await loadTraining();
});
afterAll(() => {
  for (const model of models.values()) model.dispose();
});

/** The sum of the entries times sin(0, 1, 2, ...), as in lens.py. */
const metric = ({ lastHiddenState }: ForwardResult): Loss => {
  const { length } = lastHiddenState.data;
  const factors = Float32Array.from({ length }, (_, i) => Math.sin(i));
  const [row, column] = [heed.reshape(lastHiddenState, [1, length]), { data: factors, shape: [length, 1] }];
  return heed.reshape(heed.matmul(row, column), []) as Loss;
};
const sum = ({ data }: Tensor) => data.reduce((all, value) => all + value, 0);

describe.each(expected.cases.map(({ folder, attributions }) => [folder, attributions] as const))(
  '%s',
  (folder, wanted) => {
    test.each(['gradientTimesInput', 'integratedGradients'] as const)('%s', async (method) => {
      const shares = await attribute(await modelOf(folder), clean, { metric, method, steps: expected.steps });
      expectClose(shares, { data: Float32Array.from(wanted[method]), shape: [wanted[method].length] });
    });
  },
);

// Excludes models with RMS norms, which are so steep near zeros that this number of points does not suffice.
test.each(['bert', 'distilbert', 'deberta-v2'])(
  'integrated gradients of %s add up to the difference from the baseline',
  async (folder) => {
    const model = await modelOf(folder);
    const at = (scale: number) => metric(model.forward(clean, { edit: [{ site: 'embeddings', scale }] })).item();
    const difference = at(1) - at(0);
    expect(Math.abs(difference)).toBeGreaterThan(0.1);
    const shares = await attribute(model, clean, { metric, method: 'integratedGradients', steps: 200 });
    expect(Math.abs(sum(shares) - difference)).toBeLessThan(1e-2 * Math.abs(difference));
  },
);

test('the default is integrated gradients with 50 steps, and progress is reported', async () => {
  const model = await modelOf('bert');
  const reports: object[] = [];
  const shares = await attribute(model, 'the quick fox', { metric, onProgress: (report) => reports.push(report) });
  expect(reports).toHaveLength(50);
  expect(reports.at(-1)).toEqual({ done: 50, total: 50 });
  const same = await attribute(model, 'the quick fox', { metric, method: 'integratedGradients', steps: 50 });
  expect(shares.data).toEqual(same.data);
  expect(shares.shape).toEqual([(await model.tokenize('the quick fox')).tokens[0]!.length]);
});

test('the model is left as it was: its mode, its frozen parameters and their gradients', async () => {
  using model = await heed.fromPretrained(tinyModel('bert'), { trainable: true, dropout: 0.5, seed: 1 });
  const plain = await attribute(model, clean, { metric, steps: 3 });
  model.train().freeze('*embeddings*');
  const loss = metric(model.forward(clean));
  const required = model.parameters().map(({ requiresGrad }) => requiresGrad);
  expect(new Set(required).size).toBe(2);
  // Dropout is off, and the graph of an earlier forward pass of the model has not been freed.
  expect((await attribute(model, clean, { metric, steps: 3 })).data).toEqual(plain.data);
  expect(model.training).toBe(true);
  expect(model.parameters().map(({ requiresGrad }) => requiresGrad)).toEqual(required);
  expect(model.parameters().every(({ grad }) => grad === null)).toBe(true);
  loss.backward();
  const gradients = model.parameters().map(({ grad }) => grad?.data);
  expect(gradients.some((gradient) => gradient)).toBe(true);
  await attribute(model, clean, { metric, steps: 3 });
  expect(model.parameters().map(({ grad }) => grad?.data)).toEqual(gradients);
});

test('signals stop it between steps', async () => {
  const model = await modelOf('bert');
  const stop = new AbortController();
  const reports: number[] = [];
  const onProgress = ({ done }: { done: number }) => {
    reports.push(done);
    if (done === 2) stop.abort();
  };
  const shares = attribute(model, clean, { metric, signal: stop.signal, onProgress });
  await expect(shares).rejects.toMatchObject({ name: 'AbortError' });
  expect(reports).toEqual([1, 2]);
});

describe('bad input', () => {
  const bad: [string, () => object, string, string][] = [
    ['no metric', () => ({ metric: undefined }), 'INVALID_ARGUMENT', 'attribute.metric: expected a function'],
    ['an unknown method', () => ({ method: 'integrated' }), 'INVALID_ARGUMENT', "nearest: 'integratedGradients'"],
    ['no steps', () => ({ steps: 0 }), 'INVALID_ARGUMENT', 'attribute.steps'],
    ['an unknown option', () => ({ step: 3 }), 'INVALID_ARGUMENT', "unknown option 'step'"],
    ['a metric that returns a number', () => ({ metric: () => 1 }), 'INVALID_ARGUMENT', 'without axes'],
    [
      'a metric that returns the hidden state',
      () => ({ metric: (result: ForwardResult) => result.lastHiddenState }),
      'INVALID_ARGUMENT',
      'got a tensor of shape [1, 6, 24]',
    ],
    ['a promise', () => ({ metric: async (result: ForwardResult) => metric(result) }), 'INVALID_ARGUMENT', 'Promise'],
    [
      'a constant',
      () => ({
        metric: ({ lastHiddenState: { data, shape } }: ForwardResult) =>
          heed.losses.mse({ data: data.slice(), shape }, { data: data.map(() => 0), shape }),
      }),
      'INVALID_ARGUMENT',
      'computed from its argument',
    ],
    [
      'a metric that is not finite',
      () => ({ metric: (result: ForwardResult) => heed.multiply(heed.multiply(metric(result), 1e38), 1e38) }),
      'DIVERGED',
      'finite',
    ],
  ];
  test.each(bad)('%s', async (_, more, code, message) => {
    const model = await modelOf('bert');
    const rejected = attribute(model, clean, { metric, steps: 2, ...more() } as never);
    await expect(rejected).rejects.toMatchObject({
      name: 'HeedError',
      code,
      message: expect.stringContaining(message),
    });
    expect(model.parameters().some(({ requiresGrad }) => requiresGrad)).toBe(true);
    expect((await attribute(model, clean, { metric, method: 'gradientTimesInput' })).shape).toEqual([6]);
  });

  test('two texts, another model, an error of the metric', async () => {
    const model = await modelOf('bert');
    await expect(attribute(model, ['a', 'the'], { metric })).rejects.toThrow('attribute: text: expected one text');
    using plain = await (await load()).fromPretrained(tinyModel('bert'));
    for (const other of [plain, null])
      await expect(attribute(other as never, 'a', { metric })).rejects.toThrow('trainable: true');
    const cause = new Error('mine');
    const thrown = () => {
      throw cause;
    };
    await expect(attribute(model, 'a', { metric: thrown })).rejects.toMatchObject({ name: 'HeedError', cause });
  });
});
