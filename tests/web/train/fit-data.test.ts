import { type FitOptions, Tensor } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { draw } from '../layers/numbers.js';
import { classes, count, errorOf, fitted, heed, held, makeModel, sgd, values, x } from './fit-support.js';

describe('weights', () => {
  const weights = Array.from({ length: count }, (_, i) => (i % 4) / 2);

  test('of samples are those of the loss', async () => {
    const [model, byHand] = [makeModel(), makeModel().train()];
    const batches: { inputs: Tensor; labels: Tensor; weights: Tensor }[] = [];
    const history = await fitted(model, {
      epochs: 2,
      sampleWeight: weights,
      loss: (output, labels, batch) => {
        batches.push(batch as never);
        return heed.losses.mse(output, labels, { exampleWeights: batch.weights! });
      },
    });
    const named = makeModel();
    expect(await fitted(named, { epochs: 2, sampleWeight: new Tensor(Float32Array.from(weights), [count]) })).toEqual(
      history,
    );
    expect(named.stateDict()).toEqual(model.stateDict());
    const optimizer = sgd(byHand);
    const losses: number[] = [];
    for (const batch of batches) {
      const place = (i: number) => x.data.indexOf(batch.inputs.data[3 * i]!) / 3;
      expect([...batch.weights.data]).toEqual(Array.from(batch.weights.data, (_, i) => weights[place(i)]));
      optimizer.zeroGrad();
      const loss = heed.losses.mse(byHand.forward(batch.inputs), batch.labels, { exampleWeights: batch.weights });
      loss.backward();
      optimizer.step();
      losses.push(loss.item());
    }
    expect(byHand.stateDict()).toEqual(model.stateDict());
    const sums = batches.slice(0, 3).map((batch) => batch.weights.data.reduce((a, b) => a + b, 0));
    const mean = sums.reduce((sum, each, i) => sum + each * losses[i]!, 0) / sums.reduce((a, b) => a + b, 0);
    expect(history.loss[0]).toBeCloseTo(mean, 12);
  });

  test('of batches that arrive one by one', async () => {
    const inputs = new Tensor(x.data.slice(0, 6), [2, 3]);
    const batch = (weights?: unknown) => ({ inputs, labels: [[1], [1]], weights });
    const run = async (weights: unknown, loss: unknown = 'mse') => {
      const stream = () => [batch(weights)];
      const history = await fitted(makeModel(), { epochs: 3, loss, validation: stream } as never, stream as never);
      return history.loss;
    };
    const weighted = await run([0, 2]);
    expect(weighted).not.toEqual(await run(undefined));
    const own = (output: Tensor, labels: never, { weights }: { weights: never }) =>
      heed.losses.mse(output, labels, { exampleWeights: weights });
    expect(await run([0, 2], own)).toEqual(weighted);
    // The first loss is the squared error of the second example alone, with weights whose mean is 1.
    const [, second] = makeModel().train().forward(inputs).data;
    expect(weighted[0]).toBeCloseTo((second! - 1) ** 2, 5);
    expect((await errorOf(run([1, -1]))).message).toContain('fit: data.weights: expected finite numbers >= 0, got -1');
    expect((await errorOf(run('x'))).message).toContain('fit: data.weights: ');
    const table = fitted(makeModel(), { epochs: 1 }, batch([1, 1]) as never);
    expect((await errorOf(table)).message).toContain('sampleWeight');
  });

  test('of classes are those of the samples with these labels', async () => {
    const classWeight = { 0: 0.5, 1: 3 };
    const sampleWeight = classes.map((label) => classWeight[label as 0]);
    const data = { inputs: x, labels: classes as never };
    for (const worker of [false, true]) {
      const [one, other, both] = [makeModel(2), makeModel(2), makeModel(2)];
      const options = { loss: 'crossEntropy', epochs: 2, worker } as const;
      await fitted(one, { ...options, classWeight }, data);
      await fitted(other, { ...options, sampleWeight }, data);
      expect(one.stateDict()).toEqual(other.stateDict());
      await fitted(
        both,
        { ...options, classWeight: { 0: 0.5 }, sampleWeight: classes.map((label) => (label ? 3 : 1)) },
        data,
      );
      expect(both.stateDict()).toEqual(other.stateDict());
    }
  });

  test('of 0 leave examples out, and validation data are not weighted', async () => {
    const [all, some] = [makeModel(), makeModel()];
    const kept = (values: Tensor) => values.slice(0, 12);
    const ones = Array.from({ length: count }, (_, i) => Number(i < 12));
    const options = { epochs: 1, batchSize: count, validation: held };
    const history = await fitted(all.freeze('0.*'), { ...options, sampleWeight: ones });
    expect(history.validation![0]).toBe((await all.evaluate(held, { loss: 'mse' })).loss);
    expect((await fitted(some.freeze('0.*'), options, { inputs: kept(x), labels: kept(values) })).loss).toHaveLength(1);
    const zero = makeModel();
    const before = zero.stateDict();
    const nothing = await fitted(zero, { epochs: 2, sampleWeight: Array(count).fill(0) });
    expect(nothing.loss).toEqual([0, 0]);
    expect(zero.stateDict()).toEqual(before);
  });

  test('give the same result in a worker and, up to rounding, in several', async () => {
    const states = [];
    for (const where of [{}, { worker: true }, { workers: 2 }] as const) {
      const model = makeModel();
      await fitted(model, { epochs: 2, sampleWeight: weights, ...where });
      states.push(model.stateDict());
    }
    expect(states[1]).toEqual(states[0]);
    for (const [name, { data }] of Object.entries(states[2]!))
      for (const [i, value] of data.entries()) expect(value).toBeCloseTo(states[0]![name]!.data[i]!, 5);
  });
});

describe('values that are not finite', () => {
  const bad = (values: Tensor, at: number, value: number) => {
    const data = values.data.slice();
    data[at] = value;
    return new Tensor(data, values.shape);
  };

  test.each<[string, () => [data: unknown, options?: Partial<FitOptions>], RegExp]>([
    [
      'inputs',
      () => [{ inputs: bad(x, 3 * 4 + 2, NaN), labels: values }],
      /fit: data.inputs: .* NaN in row 4, column 2/,
    ],
    [
      'nested inputs',
      () => [{ inputs: bad(x, 3 * 5 + 1, Infinity).toArray(), labels: values }],
      /data.inputs: expected finite numbers, got Infinity in row 5, column 1/,
    ],
    [
      'labels',
      () => [{ inputs: x, labels: bad(values, 7, -Infinity) }],
      /data.labels: .* -Infinity in row 7, column 0/,
    ],
    [
      'labels in one array',
      () => [{ inputs: x, labels: [...values.data.slice(0, 19), NaN] }],
      /data.labels: .* NaN in row 19, column 0/,
    ],
    [
      'validation data',
      () => [{ inputs: x, labels: values }, { validation: { ...held, inputs: bad(held.inputs, 3 * 6, NaN) } }],
      /fit.validation.inputs: .* NaN in row 6, column 0/,
    ],
    [
      'sequences',
      () => [{ inputs: bad(draw(5, 4, 3, 2), 3 * 2 * 2 + 2 + 1, NaN), labels: [1, 2, 3, 4] }],
      /NaN in row 2, column 1 \(at \[2, 1, 1\]\)/,
    ],
    ['batches', () => [[{ inputs: x, labels: bad(values, 2, NaN) }]], /fit: data.labels: .* NaN in row 2, column 0/],
  ])('in %s are found before the first step', async (_, make, message) => {
    for (const worker of [false, true]) {
      const [data, options] = make();
      if (worker && Array.isArray(data)) continue;
      const model = makeModel();
      const before = model.stateDict();
      const error = await errorOf(fitted(model, { ...options, worker }, data as never));
      expect(error).toMatchObject({ name: 'HeedError', code: 'INVALID_ARGUMENT' });
      expect(error.message).toMatch(message);
      expect(model.stateDict()).toEqual(before);
    }
  });
});
