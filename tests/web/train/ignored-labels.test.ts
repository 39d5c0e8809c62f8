/** Losses of data in which some labels are ignored: those of PyTorch over all labels at once, whatever the batch size. */
import type { FitProgress, Tensor } from 'heed/train';
import { describe, expect, test, vi } from 'vitest';
import { draw } from '../layers/numbers.js';
import { errorOf, heed } from './fit-support.js';

const [count, length, classes] = [6, 4, 3];
const inputs = draw(11, count, length, 5);
/** From one example without labels to one with all of them. */
const labels = Array.from({ length: count }, (_, n) =>
  Array.from({ length }, (_, t) => (t < n - 1 ? (n + t) % classes : -100)),
);
const none = labels.map((row) => row.map(() => -100));

const make = () => new heed.Sequential([new heed.Linear({ inFeatures: 5, outFeatures: classes })], { seed: 2 });
type Model = ReturnType<typeof make>;
const frozen = (model: Model) => new heed.optim.SGD(model.parameters(), { lr: 0 });

/** The weighted mean of -log(softmax) over all labels that are not ignored, in double precision. */
function expected(model: Model, weightOf: (label: number) => number = () => 1, rows = labels): number {
  const { data } = model.eval().forward(inputs);
  let [sum, total] = [0, 0];
  for (const [i, label] of rows.flat().entries()) {
    if (label === -100) continue;
    const row = [...data.subarray(i * classes, (i + 1) * classes)];
    const log = Math.log(row.reduce((all, logit) => all + Math.exp(logit), 0));
    sum += weightOf(label) * (log - row[label]!);
    total += weightOf(label);
  }
  return sum / total;
}

describe('the loss is the mean over all labels', () => {
  const loss = 'crossEntropy';

  test.each([1, 2, 3, 4, 6])('in batches of %d', async (batchSize) => {
    const model = make();
    const data = { inputs, labels };
    const mean = expected(model);
    expect((await model.evaluate(data, { loss, batchSize })).loss).toBeCloseTo(mean, 6);
    const options = { loss, batchSize, optimizer: frozen(model), validation: data } as const;
    const history = await model.fit(data, options);
    expect(history.loss[0]).toBeCloseTo(mean, 6);
    expect(history.validation![0]).toBeCloseTo(mean, 6);
  });

  test('in batches of different lengths, which arrive one by one', async () => {
    const model = make();
    const mean = expected(model);
    const rows = inputs.toArray<number[][][]>();
    const batches = rows.flatMap((row, n) => {
      const kept = n === 0 ? length : Math.max(1, n - 1); // the last labels of a row are ignored
      return [{ inputs: [row.slice(0, kept)], labels: [labels[n]!.slice(0, kept)] }];
    });
    expect((await model.evaluate(batches, { loss })).loss).toBeCloseTo(mean, 6);
  });

  test.each([1, 4])('weighted by classes, in batches of %d', async (batchSize) => {
    const model = make();
    const weights = [0.5, 2, 3];
    const own = (output: Tensor, given: number[]) => heed.losses.crossEntropy(output, given, { classWeights: weights });
    const mean = expected(model, (label) => weights[label]!);
    expect((await model.evaluate({ inputs, labels }, { loss: own, batchSize })).loss).toBeCloseTo(mean, 6);
    const classWeight = { 0: 0.5, 1: 2, 2: 3 };
    const options = { loss: 'crossEntropy', batchSize, optimizer: frozen(model), classWeight } as const;
    expect((await model.fit({ inputs, labels }, options)).loss[0]).toBeCloseTo(mean, 6);
  });

  test('also if a loss of your own ignores another label', async () => {
    const model = make();
    const other = labels.map((row) => row.map((label) => (label === -100 ? 7 : label)));
    const own = (output: Tensor, given: number[]) => heed.losses.crossEntropy(output, given, { ignoreIndex: 7 });
    for (const batchSize of [1, 6])
      expect((await model.evaluate({ inputs, labels: other }, { loss: own, batchSize })).loss).toBeCloseTo(
        expected(model),
        6,
      );
  });
});

describe('a batch whose labels are all ignored', () => {
  test.each([{}, { worker: true }, { workers: 2 }] as const)('changes no parameter: %j', async (where) => {
    const model = make();
    const [before, seen] = [model.stateDict(), [] as FitProgress[]];
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 0.1 });
    const schedule = heed.optim.schedules.linear(optimizer, { warmup: 0, steps: 2 });
    const data = { inputs: draw(11, 2, length, 5), labels: [none[0]!, [0, -100, 1, 2]] };
    const onStep = (progress: FitProgress) => seen.push(progress);
    const options = { loss: 'crossEntropy', batchSize: 1, optimizer, schedule, onStep, ...where } as const;
    const { loss } = await model.fit(data, options);
    const losses = seen.map((progress) => progress.loss).sort();
    expect(losses.filter(Number.isNaN)).toHaveLength(1);
    expect(loss).toEqual([losses.find((each) => !Number.isNaN(each))]);
    expect(schedule.count).toBe(2);
    for (const { data } of Object.values(model.stateDict())) expect(data.every(Number.isFinite)).toBe(true);
    expect(model.stateDict()).not.toEqual(before);
  });

  test('is an error if there are no others, and NaN where it is only measured', async () => {
    const model = make();
    const before = model.stateDict();
    for (const where of [{}, { workers: 1 }]) {
      const options = { loss: 'crossEntropy', optimizer: new heed.optim.AdamW(model.parameters()), ...where } as const;
      const error = await errorOf(model.fit({ inputs, labels: none }, options));
      expect(error).toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: 'fit: data: all labels of the data are -100, so it has no loss',
      });
    }
    expect(model.stateDict()).toEqual(before);
    expect(await model.evaluate({ inputs, labels: none }, { loss: 'crossEntropy' })).toMatchObject({ loss: NaN });
    const loss = heed.losses.crossEntropy(model.train().forward(inputs), none);
    expect(loss.item()).toBeNaN(); // as in PyTorch
    expect(() => loss.backward()).toThrow('backward: all labels of the batch are -100, so it has no loss');
  });

  test('is named by the label that a loss of your own ignores', async () => {
    const model = make();
    const padded = none.map((row) => row.map(() => -1));
    const own = (output: Tensor, given: number[]) => heed.losses.crossEntropy(output, given, { ignoreIndex: -1 });
    const options = { loss: own, optimizer: new heed.optim.AdamW(model.parameters()) };
    expect(await errorOf(model.fit({ inputs, labels: padded }, options))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: 'fit: data: all labels of the data are -1, so it has no loss',
    });
    const loss = heed.losses.crossEntropy(model.train().forward(inputs), padded, { ignoreIndex: -1 });
    expect(() => loss.backward()).toThrow('backward: all labels of the batch are -1, so it has no loss');
  });
});

describe('a batch without examples', () => {
  const empty = {
    inputs: { data: new Float32Array(), shape: [0, 5] },
    labels: { data: new Float32Array(), shape: [0, 3] },
  };

  test('has a loss that is not finite, and no labels that could be ignored', async () => {
    const model = make();
    const loss = heed.losses.mse(model.train().forward(empty.inputs), empty.labels);
    expect(loss.item()).toBeNaN(); // as in PyTorch
    const diverged = expect.objectContaining({ code: 'DIVERGED', message: expect.not.stringContaining('labels') });
    expect(() => loss.backward()).toThrow(diverged);
    const optimizer = new heed.optim.AdamW(model.parameters());
    expect(await errorOf(model.fit([empty], { loss: 'mse', optimizer }))).toEqual(diverged);
  });

  test('has no weight where losses are only measured', async () => {
    const model = make();
    const full = { inputs: [[1, 2, 3, 4, 5]], labels: [[1, 0, 1]] };
    const alone = await model.evaluate([full], { loss: 'mse' });
    expect(alone.loss).toBeGreaterThan(0);
    expect(await model.evaluate([empty, full, empty], { loss: 'mse' })).toEqual(alone);
    expect(await model.evaluate([empty], { loss: 'mse' })).toMatchObject({ loss: NaN });
  });
});

test('backward() reads the labels of a finite loss once, not again for the error that it does not have', () => {
  const loss = heed.losses.crossEntropy(make().train().forward(inputs), labels);
  const share = vi.spyOn(Object.getPrototypeOf(loss), 'share', 'get');
  loss.backward();
  expect(share).not.toHaveBeenCalled();
  share.mockRestore();
});
