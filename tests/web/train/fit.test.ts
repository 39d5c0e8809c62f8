import { type FitProgress, HeedError } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { adam, count, errorOf, heed, inputs, labels, length, makeModel, options } from './fit-sequences.js';

describe('fit', () => {
  test('learns, and reports each step', async () => {
    const model = makeModel();
    const seen: FitProgress[] = [];
    const history = await model.fit(
      { inputs, labels },
      { ...options, optimizer: adam(model), epochs: 30, onStep: (progress) => seen.push(progress) },
    );
    expect(history.loss).toHaveLength(30);
    expect(history.loss.at(-1)).toBeLessThan(0.2 * history.loss[0]!);
    expect(history).not.toHaveProperty('validation');
    expect(seen).toHaveLength(30 * 4);
    expect(seen.at(-1)).toMatchObject({ step: 120, steps: 120, epoch: 29 });
    const epoch = seen.slice(0, 4).reduce((sum, { loss }, i) => sum + loss * (i < 3 ? 8 : 2), 0) / count;
    expect(history.loss[0]).toBeCloseTo(epoch, 12);
    expect(model.training).toBe(false);
  });

  test('does what the loop by hand does, bit for bit, with clipping and a schedule', async () => {
    const [model, byHand] = [makeModel(), makeModel()];
    const schedule = (optimizer: ReturnType<typeof adam>) =>
      heed.optim.schedules.linear(optimizer, { warmup: 2, steps: 5 });
    const optimizer = adam(model);
    const order: number[][][] = [];
    await model.fit(
      { inputs, labels },
      {
        optimizer,
        schedule: schedule(optimizer),
        clipNorm: 0.5,
        batchSize: 8,
        seed: 5,
        loss: (output, y, batch) => {
          order.push(batch.inputs as number[][]);
          return heed.losses.crossEntropy(output, y);
        },
      },
    );
    expect(order.map((batch) => batch.length)).toEqual([8, 8, 8, 2]);
    expect(order.flat()).not.toEqual(inputs);
    expect(order.flat().map(String).sort()).toEqual(inputs.map(String).sort());

    byHand.train();
    const other = adam(byHand);
    const otherSchedule = schedule(other);
    for (const ids of order) {
      other.zeroGrad();
      heed.losses
        .crossEntropy(
          byHand.forward(ids),
          ids.map((row) => row.map((id) => (id + 1) % 7)),
        )
        .backward();
      heed.optim.clipGradNorm(byHand.parameters(), 0.5);
      other.step();
      otherSchedule.step();
    }
    expect(model.stateDict()).toEqual(byHand.stateDict());
  });

  test('draws the same order for a seed in every engine, and another for each epoch', async () => {
    const order: number[] = [];
    const model = new heed.Sequential([new heed.Linear({ inFeatures: 1, outFeatures: 1 })]);
    const x = Array.from({ length: 8 }, (_, i) => [i]);
    await model.fit(
      { inputs: x, labels: x },
      {
        optimizer: new heed.optim.SGD(model.parameters(), { lr: 0 }),
        loss: (output, y, batch) => {
          order.push(...(batch.inputs as number[][]).map(([i]) => i!));
          return heed.losses.mse(output, y);
        },
        batchSize: 3,
        epochs: 2,
        seed: 2 ** 40 + 3,
      },
    );
    expect(order).toMatchInlineSnapshot(`
      [
        0,
        1,
        6,
        7,
        5,
        2,
        4,
        3,
        6,
        5,
        4,
        3,
        7,
        0,
        2,
        1,
      ]
    `);
  });

  test('tensors give the same as arrays', async () => {
    const x = Array.from({ length: 9 }, (_, i) => [Math.sin(i), Math.cos(i), i / 9]);
    const y = x.map(([a, b]) => [a! - b!, b!]);
    const tensor = (rows: number[][]) => ({ data: Float32Array.from(rows.flat()), shape: [9, rows[0]!.length] });
    const results = [];
    for (const data of [
      { inputs: x, labels: y },
      { inputs: tensor(x), labels: tensor(y) },
    ]) {
      const model = new heed.Sequential([new heed.Linear({ inFeatures: 3, outFeatures: 2 })], { seed: 1 });
      const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
      await model.fit(data, { loss: 'mse', optimizer, epochs: 3, batchSize: 4, seed: 1 });
      results.push(model.stateDict());
    }
    expect(results[1]).toEqual(results[0]);
    const model = makeModel();
    const ids = { data: Int32Array.from(inputs.flat()), shape: [count, length] };
    const targets = { data: Int32Array.from(labels.flat()), shape: [count, length] };
    const other = makeModel();
    await model.fit({ inputs: ids, labels: targets }, { ...options, optimizer: adam(model) });
    await other.fit({ inputs, labels }, { ...options, optimizer: adam(other) });
    expect(model.stateDict()).toEqual(other.stateDict());
  });

  test('takes batches one by one', async () => {
    async function* batches() {
      for (let n = 0; n < count; n += 13) yield { inputs: inputs.slice(n, n + 13), labels: labels.slice(n, n + 13) };
    }
    const model = makeModel();
    const steps: (number | null)[] = [];
    const history = await model.fit(batches, {
      ...options,
      optimizer: adam(model),
      epochs: 2,
      validation: [{ inputs, labels }],
      onStep: (progress) => steps.push(progress.steps),
    });
    expect(steps).toEqual([null, null, null, null]);
    expect(history.validation).toHaveLength(2);
    // A generator is exhausted after one epoch.
    const error = await errorOf(model.fit(batches(), { ...options, optimizer: adam(model), epochs: 2 }));
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('give a function') });
  });

  test('works for a Module of one’s own', async () => {
    class Model extends heed.Module {
      embedding = new heed.Embedding({ numEmbeddings: 7, embedDim: 8, seed: 1 });
      encoder = new heed.Encoder({ embedDim: 8, numHeads: 2, feedForwardDim: 8, numLayers: 1, seed: 2 });
      head = new heed.Linear({ inFeatures: 8, outFeatures: 7, seed: 3 });
      forward(ids: number[][]) {
        return { output: this.head.forward(this.encoder.forward(this.embedding.forward(ids)).output) };
      }
    }
    const model = new Model();
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-2 });
    const { loss } = await model.fit({ inputs, labels }, { ...options, optimizer, epochs: 5 });
    expect(loss[4]).toBeLessThan(loss[0]!);
  });

  test('goes on from a checkpoint bit for bit', async () => {
    const [whole, first, second] = [makeModel(), makeModel(), makeModel(9)];
    const data = { inputs, labels };
    const one = adam(whole);
    const expected = await whole.fit(data, { ...options, optimizer: one, epochs: 4 });
    const two = adam(first);
    await first.fit(data, { ...options, optimizer: two, epochs: 2 });
    const three = adam(second);
    heed.loadCheckpoint(heed.saveCheckpoint({ model: first, optimizer: two }), { model: second, optimizer: three });
    const history = await second.fit(data, { ...options, optimizer: three, initialEpoch: 2, epochs: 4 });
    expect(history.loss).toEqual(expected.loss.slice(2));
    expect(heed.saveCheckpoint({ model: second, optimizer: three })).toEqual(
      heed.saveCheckpoint({ model: whole, optimizer: one }),
    );
  });
});

describe('validation and early stopping', () => {
  test('a part of the examples, drawn by the seed, is kept from training', async () => {
    const trained = new Set<string>();
    const validated = new Set<string>();
    const model = makeModel();
    const unique = Array.from({ length: 20 }, (_, n) => [n % 7, Math.floor(n / 7), 0, 0]);
    const history = await model.fit(
      { inputs: unique, labels: unique },
      {
        optimizer: adam(model),
        loss: (output, y, batch) => {
          for (const row of batch.inputs as number[][]) (model.training ? trained : validated).add(String(row));
          return heed.losses.crossEntropy(output, y);
        },
        epochs: 2,
        batchSize: 3,
        validation: 0.2,
        seed: 1,
      },
    );
    expect(validated.size).toBe(4);
    expect(trained.size).toBe(16);
    expect([...trained].filter((row) => validated.has(row))).toEqual([]);
    expect([...validated]).not.toEqual(unique.slice(-4).map(String));
    expect(history.validation).toHaveLength(2);
  });

  test('validation data are measured without dropout and leave no trace', async () => {
    const [model, other] = [makeModel(1, 0.5), makeModel(1, 0.5)];
    const held = { inputs: inputs.slice(0, 5), labels: labels.slice(0, 5) };
    const data = { inputs: inputs.slice(5), labels: labels.slice(5) };
    const { validation } = await model.fit(data, { ...options, optimizer: adam(model), epochs: 2, validation: held });
    await other.fit(data, { ...options, optimizer: adam(other), epochs: 2 });
    expect(model.stateDict()).toEqual(other.stateDict());
    const loss = heed.losses.crossEntropy(model.forward(held.inputs), held.labels).item();
    expect(validation![1]).toBe(loss);
  });

  test('stops after `patience` epochs without improvement, with the best parameters', async () => {
    const model = new heed.Sequential([new heed.Linear({ inFeatures: 1, outFeatures: 1 })], { seed: 1 });
    // The validation data contradict the training data: their loss soon rises.
    const data = { inputs: [[1], [1]], labels: [[5], [5]] };
    const start = model.forward([[1]]).data[0]!;
    const held = { inputs: [[1]], labels: [[start + 1]] };
    const states: unknown[] = [];
    const history = await model.fit(data, {
      loss: 'mse',
      optimizer: new heed.optim.SGD(model.parameters(), { lr: 0.01 }),
      epochs: 50,
      validation: held,
      earlyStopping: { patience: 3 },
      onStep: () => states.push(model.stateDict()),
    });
    const { validation, best } = history;
    expect(best).toBe(validation!.indexOf(Math.min(...validation!)));
    expect(best).toBeGreaterThan(0);
    expect(validation).toHaveLength(best! + 1 + 3);
    expect(model.stateDict()).toEqual(states[best!]);
    expect(states.at(-1)).not.toEqual(states[best!]);
  });

  test('without validation, the training loss counts', async () => {
    const model = makeModel(1, 0);
    const { loss, best } = await model.fit(
      { inputs: inputs.slice(0, 1), labels: labels.slice(0, 1) },
      { ...options, optimizer: adam(model, 0), epochs: 9, earlyStopping: { patience: 2 } },
    );
    expect(loss).toEqual([loss[0], loss[0], loss[0]]);
    expect(best).toBe(0);
  });
});

describe('refuses', () => {
  const data = { inputs, labels };
  test.each<[string, unknown, (optimizer: unknown) => unknown]>([
    ['no data', undefined, (optimizer) => ({ ...options, optimizer })],
    ['data without labels', { inputs }, (optimizer) => ({ ...options, optimizer })],
    ['too few labels', { inputs, labels: labels.slice(1) }, (optimizer) => ({ ...options, optimizer })],
    ['no examples', { inputs: [], labels: [] }, (optimizer) => ({ ...options, optimizer })],
    [
      'a tensor without axes',
      { inputs: { data: new Float32Array(1), shape: [] }, labels },
      (optimizer) => ({ ...options, optimizer }),
    ],
    ['batches without inputs', [{ labels }], (optimizer) => ({ ...options, optimizer })],
    ['a fraction of batches', [data], (optimizer) => ({ ...options, optimizer, validation: 0.5 })],
    ['a fraction of all', data, (optimizer) => ({ ...options, optimizer, validation: 0.99 })],
    ['a fraction of 1', data, (optimizer) => ({ ...options, optimizer, validation: 1 })],
    ['no options', data, () => undefined],
    ['no optimizer', data, () => options],
    ['an unknown option', data, (optimizer) => ({ ...options, optimizer, epoch: 1 })],
    ['an unknown loss', data, (optimizer) => ({ ...options, optimizer, loss: 'crossentropy' })],
    ['a loss of three tensors', data, (optimizer) => ({ ...options, optimizer, loss: 'triplet' })],
    ['a loss that returns a number', data, (optimizer) => ({ ...options, optimizer, loss: () => 1 })],
    ['0 epochs', data, (optimizer) => ({ ...options, optimizer, epochs: 0 })],
    ['patience 0', data, (optimizer) => ({ ...options, optimizer, earlyStopping: { patience: 0 } })],
    ['a worker that is none', data, (optimizer) => ({ ...options, optimizer, worker: {} })],
  ])('%s', async (_, given, make) => {
    const model = makeModel();
    const before = model.stateDict();
    const error = await errorOf(model.fit(given as never, make(adam(model)) as never));
    expect(error).toBeInstanceOf(HeedError);
    expect(['INVALID_ARGUMENT', 'SHAPE_MISMATCH']).toContain((error as HeedError).code);
    expect(model.stateDict()).toEqual(before);
  });

  test('two fits of a model at once, and another optimizer’s schedule', async () => {
    const model = makeModel();
    const optimizer = adam(model);
    const running = model.fit(data, { ...options, optimizer });
    expect(await errorOf(model.fit(data, { ...options, optimizer }))).toMatchObject({ code: 'INVALID_ARGUMENT' });
    await running;
    const schedule = heed.optim.schedules.constant(adam(model), { warmup: 1 });
    expect(await errorOf(model.fit(data, { ...options, optimizer, schedule }))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });

  test('a model that is disposed of meanwhile', async () => {
    const model = makeModel();
    const promise = model.fit(data, { ...options, optimizer: adam(model), epochs: 9, onStep: () => model.dispose() });
    expect(await errorOf(promise)).toMatchObject({ code: 'DISPOSED' });
  });
});
