/** Metrics, callbacks and early stopping of `fit`. */
import { meanAbsoluteError, r2Score } from 'heed/evaluation';
import {
  type EpochResult,
  type FitCallback,
  type FitOptions,
  HeedError,
  type History,
  type Loss,
  type Tensor,
} from 'heed/train';
import { describe, expect, test } from 'vitest';
import { draw } from '../layers/numbers.js';
import { classes, count, errorOf, fitted, heed, held, makeModel, sgd, x } from './fit-support.js';

describe('metrics', () => {
  test('by name and by function, for training and validation data', async () => {
    const model = makeModel();
    const seen: EpochResult[] = [];
    const history = await fitted(model, {
      epochs: 3,
      validation: held,
      metrics: [
        'mae',
        'rmse',
        'r2Score',
        function worst(output: Tensor, labels: Tensor) {
          return Math.max(...output.data.map((value, i) => Math.abs(value - labels.data[i]!)));
        },
      ],
      callbacks: [{ onEpoch: (result) => void seen.push(result) }],
    });
    const names = ['mae', 'rmse', 'r2Score', 'worst'];
    expect(Object.keys(history.metrics!)).toEqual(names);
    expect(Object.keys(history.validationMetrics!)).toEqual(names);
    for (const lists of [history.metrics!, history.validationMetrics!])
      for (const list of Object.values(lists)) expect(list).toHaveLength(3);
    const output = model.forward(held.inputs);
    const of = (metric: typeof r2Score) => metric(held.labels, output);
    expect(history.validationMetrics!.mae!.at(-1)).toBeCloseTo(of(meanAbsoluteError), 12);
    expect(history.validationMetrics!.r2Score!.at(-1)).toBe(of(r2Score));
    for (let epoch = 0; epoch < 3; epoch++) {
      expect(history.metrics!.rmse![epoch]! ** 2).toBeCloseTo(history.loss[epoch]!, 6); // that of the same outputs
      expect(seen[epoch]).toEqual({
        epoch,
        loss: history.loss[epoch],
        validation: history.validation![epoch],
        metrics: Object.fromEntries(names.map((name) => [name, history.metrics![name]![epoch]])),
        validationMetrics: Object.fromEntries(names.map((name) => [name, history.validationMetrics![name]![epoch]])),
      });
    }
  });

  test('do not change the training', async () => {
    const states = [];
    for (const metrics of [[], ['mae', (output: Tensor) => heed.mean(output).data[0]!]] as const) {
      const model = makeModel();
      await fitted(model, { epochs: 2, metrics });
      states.push(model.stateDict());
    }
    expect(states[1]).toEqual(states[0]);
  });

  test('accuracy of class logits, of single logits, and of sequences with ignored labels', async () => {
    const identity = new heed.Sequential([(input: Tensor) => heed.multiply(input, 1)], { seed: 1 });
    const accuracy = async (inputs: unknown, labels: unknown) =>
      (await identity.evaluate({ inputs, labels } as never, { metrics: ['accuracy'], batchSize: 2 })).metrics.accuracy;
    expect(
      await accuracy(
        [
          [1, 2, 0],
          [3, 1, 0],
          [0, 0, 1],
        ],
        [1, 0, 1],
      ),
    ).toBeCloseTo(2 / 3, 12);
    expect(await accuracy([[0.1], [-2], [0], [5]], [1, 0, 1, 1])).toBe(3 / 4);
    expect(await accuracy([[0.1], [-2], [0], [5]], [[1], [0], [0], [0]])).toBe(3 / 4);
    expect(
      await accuracy(
        [
          [0.1, -1],
          [-2, 3],
        ],
        [
          [1, 0],
          [1, 1],
        ],
      ),
    ).toBe(3 / 4);
    expect(
      await accuracy(
        [
          [
            [1, 2],
            [2, 1],
          ],
          [
            [0, 1],
            [1, 0],
          ],
        ],
        [
          [1, 0],
          [0, -100],
        ],
      ),
    ).toBeCloseTo(2 / 3, 12);
  });

  test('with classes in fit', async () => {
    const model = makeModel(2);
    const { metrics } = await fitted(
      model,
      { loss: 'crossEntropy', metrics: ['accuracy'], epochs: 40 },
      { inputs: x, labels: classes as never },
    );
    expect(metrics!.accuracy!.at(-1)).toBeGreaterThan(0.8);
  });

  test('that fail are named, and nothing is changed', async () => {
    const model = makeModel();
    const before = model.stateDict();
    const broken = () => {
      throw new TypeError('no such thing');
    };
    const error = await errorOf(fitted(model, { metrics: [broken] }));
    expect(error).toBeInstanceOf(HeedError);
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', cause: expect.any(TypeError) });
    expect(error.message).toMatch(/fit.metrics: the metric 'broken' threw .*no such thing/);
    const text = await errorOf(fitted(model, { metrics: [function words() { return 'x' as never; }] })); // biome-ignore format: short
    expect(text.message).toMatch(/the metric 'words': its result: expected a number, got 'x'/);
    expect(model.stateDict()).toEqual(before);
    const later = await errorOf(
      model.evaluate({ inputs: x, labels: [...Array(count)].map(() => [[1, 2]]) }, { metrics: ['mae'] }),
    );
    expect(later).toMatchObject({ code: 'SHAPE_MISMATCH' });
    expect(later.message).toMatch(/evaluate.metrics: the metric 'mae': labels: expected/);
  });

  test.each<[Partial<FitOptions>, RegExp]>([
    [{ metrics: 'mae' as never }, /fit.metrics: expected an array of names and functions/],
    [
      { metrics: ['acuracy' as 'accuracy'] },
      /fit.metrics\[0\]: expected a function, or 'accuracy' \(all: accuracy, meanAbsoluteError, mae/,
    ],
    [{ metrics: ['mae', 'mae'] }, /metrics with different names, got 'mae' twice/],
    [{ metrics: [() => 1], worker: true }, /fit.metrics: expected names of metrics with `worker`/],
    [{ metrics: [() => 1], workers: 2 }, /fit.metrics: expected names of metrics with `worker`/],
    [{ callbacks: [() => 1] as never }, /fit.callbacks\[0\]/],
    [{ callbacks: [{ onEpoch: 3 }] as never }, /fit.callbacks\[0\].onEpoch: expected a function/],
    [{ callbacks: [{ onBatches() {} }] as never }, /a function onEpoch or onBatch, got neither/],
    [{ sampleWeight: [1, 2] }, /fit.sampleWeight: expected 20 numbers, one for each example, got 2/],
    [{ sampleWeight: Array(count).fill(-1) }, /fit.sampleWeight: expected finite numbers >= 0, got -1 for example 0/],
    [{ sampleWeight: draw(1, count, 1) }, /fit.sampleWeight: expected \[N\]/],
    [{ sampleWeight: Array(count).fill(1), loss: 'infoNCE' }, /fit.sampleWeight: expected one of the losses/],
    [{ classWeight: [1, 2] as never }, /fit.classWeight: expected an object/],
    [{ classWeight: { a: 1 } as never }, /fit.classWeight: expected integers as classes, got 'a'/],
    [{ classWeight: { 1: -1 } }, /fit.classWeight\['1'\]: expected a finite number >= 0/],
    [{ earlyStopping: { patience: 1, restoreBest: 1 as never } }, /fit.earlyStopping.restoreBest/],
  ])('and other options refuse %j', async (options, message) => {
    const model = makeModel();
    const error = await errorOf(fitted(model, options));
    expect(error).toBeInstanceOf(HeedError);
    expect(error.message).toMatch(message);
  });
});

describe('callbacks', () => {
  test.each([false, true])('may stop after an epoch, worker: %s', async (worker) => {
    const answers = [true, undefined, Promise.resolve(0), Promise.resolve(false), true];
    const model = makeModel();
    const others: number[] = [];
    const history = await fitted(model, {
      epochs: 50,
      validation: held,
      worker,
      metrics: ['mae'],
      callbacks: [{ onEpoch: ({ epoch }) => answers[epoch] }, { onEpoch: ({ epoch }) => void others.push(epoch) }],
    });
    expect(others).toEqual([0, 1, 2, 3]);
    for (const list of [history.loss, history.validation, history.metrics!.mae, history.validationMetrics!.mae])
      expect(list).toHaveLength(4);
  });

  test('may stop after a step, in a worker with the same bits', async () => {
    const results: [History, unknown, number[]][] = [];
    for (const worker of [false, true]) {
      const model = makeModel();
      const steps: number[] = [];
      const onBatch: FitCallback['onBatch'] = async ({ step, steps: all, epoch, loss }) => {
        expect([all, epoch, Number.isFinite(loss)]).toEqual([30, step > 3 ? 1 : 0, true]);
        steps.push(step);
        await Promise.resolve();
        return step < 5;
      };
      const history = await fitted(model, { epochs: 10, worker, metrics: ['rmse'], callbacks: [{ onBatch }] });
      expect(steps).toEqual([1, 2, 3, 4, 5]);
      expect(history.loss).toHaveLength(2);
      expect(history.metrics!.rmse).toHaveLength(2);
      results.push([history, model.stateDict(), steps]);
    }
    expect(results[1]).toEqual(results[0]);
  });

  test.each([false, true])('that throw end the fit, worker: %s', async (worker) => {
    const error = new Error('my own');
    for (const name of ['onEpoch', 'onBatch']) {
      const callback = {
        [name]() {
          throw error;
        },
      };
      expect(await errorOf(fitted(makeModel(), { epochs: 3, worker, callbacks: [callback] }))).toBe(error);
    }
  });

  test('may measure the model', async () => {
    const model = makeModel();
    const measured: number[] = [];
    const history = await fitted(model, {
      epochs: 3,
      validation: held,
      callbacks: [{ onEpoch: async () => void measured.push((await model.evaluate(held, { loss: 'mse' })).loss!) }],
    });
    expect(measured).toEqual(history.validation);
  });
});

describe('early stopping', () => {
  test('restores the best epoch unless it is told not to', async () => {
    const best = [];
    for (const restoreBest of [true, false]) {
      const model = makeModel();
      const states: unknown[] = [];
      let factor = 1;
      const history = await fitted(model, {
        optimizer: sgd(model, 1e-4),
        epochs: 9,
        loss: (output, labels) => heed.multiply(heed.losses.mse(output, labels), factor) as Loss,
        earlyStopping: { patience: 2, restoreBest },
        callbacks: [
          {
            onEpoch({ epoch }) {
              states.push(model.stateDict());
              if (epoch === 1) factor = 10; // later epochs are worse
            },
          },
        ],
      });
      best.push(history.best);
      expect(history.loss).toHaveLength(4);
      expect(model.stateDict()).toEqual(states[restoreBest ? 1 : 3]);
    }
    expect(best).toEqual([1, 1]);
  });
});

describe('fit with a schedule that follows a metric', () => {
  test('steps it once per epoch', async () => {
    const model = makeModel();
    const optimizer = sgd(model, 0);
    const schedule = heed.optim.schedules.reduceOnPlateau(optimizer, { patience: 0, factor: 0.5 });
    optimizer.paramGroups[0]!.lr = 1e-12; // too small to change the loss
    await fitted(model, { optimizer, schedule, epochs: 4, validation: held });
    expect(schedule.count).toBe(4);
  });
});
