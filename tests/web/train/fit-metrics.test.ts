/** Metrics, callbacks and weights of `fit`, and `evaluate`, `predict` and `summary`. */
import { meanAbsoluteError, r2Score } from 'heed/evaluation';
import {
  type EpochResult,
  type FitCallback,
  type FitOptions,
  HeedError,
  type History,
  type Loss,
  load,
  Tensor,
  type TrainingHeed,
} from 'heed/train';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const count = 20;
const x = draw(1, count, 3);
const values = draw(2, count, 1);
const classes = Array.from({ length: count }, (_, i) => (x.data[3 * i]! > 0 ? 1 : 0));
const held = { inputs: draw(3, 7, 3), labels: draw(4, 7, 1) };

const makeModel = (outFeatures = 1) =>
  new heed.Sequential(
    [
      new heed.Linear({ inFeatures: 3, outFeatures: 5 }),
      new heed.Dropout({ p: 0.2 }),
      new heed.Linear({ inFeatures: 5, outFeatures }),
    ],
    { seed: 1 },
  );
type Model = ReturnType<typeof makeModel>;
const sgd = (model: Model, lr = 0.05) => new heed.optim.SGD(model.parameters(), { lr, momentum: 0.5 });
const base = { loss: 'mse', batchSize: 8, seed: 3 } as const;
const fitted = (model: Model, options: Partial<FitOptions>, data = { inputs: x, labels: values }) =>
  model.fit(data as never, { ...base, optimizer: sgd(model), ...options });

const errorOf = (promise: Promise<unknown>): Promise<HeedError> =>
  promise.then(
    () => expect.unreachable('no error'),
    (error) => error,
  );

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
      /fit.metrics\[0\]: expected a function, or 'accuracy' \(all: accuracy, mae/,
    ],
    [{ metrics: ['mae', 'mae'] }, /metrics with different names, got 'mae' twice/],
    [{ metrics: ['mae'], workers: 2 }, /fit.metrics: expected no metrics with `workers`/],
    [{ metrics: [() => 1], worker: true }, /fit.metrics: expected names of metrics with `worker`/],
    [{ callbacks: [() => 1] as never }, /fit.callbacks\[0\]/],
    [{ callbacks: [{ onEpoch: 3 }] as never }, /fit.callbacks\[0\].onEpoch: expected a function/],
    [{ callbacks: [{ onBatches() {} }] as never }, /a function onEpoch or onBatch, got neither/],
    [{ sampleWeight: [1, 2] }, /fit.sampleWeight: expected 20 numbers, one for each example, got 2/],
    [{ sampleWeight: Array(count).fill(-1) }, /fit.sampleWeight: expected finite numbers >= 0, got -1 for example 0/],
    [{ sampleWeight: draw(1, count, 1) }, /fit.sampleWeight: expected \[N\]/],
    [{ sampleWeight: Array(count).fill(1), loss: 'infoNCE' }, /fit.sampleWeight: expected one of the losses/],
    [{ classWeight: [1, 2] as never }, /fit.classWeight: expected an object/],
    [{ classWeight: { a: 1 } as never }, /fit.classWeight: expected integers as classes, got 'a'/],
    [{ classWeight: { 1: -1 } }, /fit.classWeight\[1\]: expected a finite number >= 0/],
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
        return heed.losses.mse(output, labels, { weights: batch.weights! });
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
      const loss = heed.losses.mse(byHand.forward(batch.inputs), batch.labels, { weights: batch.weights });
      loss.backward();
      optimizer.step();
      losses.push(loss.item());
    }
    expect(byHand.stateDict()).toEqual(model.stateDict());
    const sums = batches.slice(0, 3).map((batch) => batch.weights.data.reduce((a, b) => a + b, 0));
    const mean = sums.reduce((sum, each, i) => sum + each * losses[i]!, 0) / sums.reduce((a, b) => a + b, 0);
    expect(history.loss[0]).toBeCloseTo(mean, 12);
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

describe('a model', () => {
  test('is evaluated with the loss and the metrics of all data, and keeps its modes', async () => {
    const model = makeModel().train();
    const dropout = model.parts[1] as { training: boolean; eval(): unknown };
    dropout.eval();
    const result = await model.evaluate(
      { inputs: x, labels: values },
      { loss: 'mse', metrics: ['rmse', 'mae'], batchSize: 6 },
    );
    expect([model.training, dropout.training]).toEqual([true, false]);
    const output = model.eval().forward(x);
    expect(result.loss).toBeCloseTo(heed.losses.mse(output, values).item(), 6);
    expect(result.metrics.rmse! ** 2).toBeCloseTo(result.loss!, 6);
    expect(result.metrics.mae).toBeCloseTo(meanAbsoluteError(values, output), 12);
    const streamed = [{ inputs: x, labels: values }];
    expect(await model.evaluate(streamed, { metrics: ['mae'] })).toEqual({ metrics: { mae: expect.any(Number) } });
  });

  test('predicts in batches what it computes at once', async () => {
    const model = makeModel().train();
    const output = await model.predict(x, { batchSize: 7 });
    expect(model.training).toBe(true);
    expect(output).toEqual(model.eval().forward(x));
    expect(await model.predict(x.toArray<number[][]>())).toEqual(output);
    for (const [wrong, message] of [
      [[], /predict: inputs: expected at least one example/],
      [3, /predict: inputs/],
    ] as const)
      expect((await errorOf(model.predict(wrong as never))).message).toMatch(message);
    const stop = new AbortController();
    stop.abort();
    expect((await errorOf(model.predict(x, { signal: stop.signal }))).name).toBe('AbortError');
  });

  test('has a summary', () => {
    const model = makeModel();
    model.freeze('0.bias');
    expect(model.summary().split('\n')).toEqual([
      'Sequential',
      '-----------------------',
      'Layer        Parameters',
      '-----------------------',
      '0 (Linear)           20',
      '1 (Dropout)           0',
      '2 (Linear)            6',
      '-----------------------',
      'Total parameters: 26',
      'Trained parameters: 21',
      'Frozen parameters: 5',
    ]);
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
