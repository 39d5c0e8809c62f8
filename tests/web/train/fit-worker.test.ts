import { Worker } from 'node:worker_threads';
import { HeedError, load, type Sequential, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, test } from 'vitest';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const inputs = Array.from({ length: 21 }, (_, n) => Array.from({ length: 5 }, (_, i) => (n * 3 + i * i) % 7));
const labels = inputs.map((row) => row.map((id) => (id + 1) % 7));
const data = { inputs, labels };
const embedDim = 8;

/** A model with non-default options, a part that is used twice, and a nested part. */
function makeModel(seed = 1): Sequential {
  const shared = new heed.FeedForward({ embedDim, feedForwardDim: 5, dropout: 0.2, gated: true });
  const parts = [
    new heed.Embedding({ numEmbeddings: 7, embedDim }),
    new heed.PositionalEncoding({ embedDim, maxLength: 6, learned: true }),
    new heed.PositionalEncoding({ embedDim, maxLength: 6, base: 100 }),
    new heed.Encoder({
      ...{ embedDim, numHeads: 2, feedForwardDim: 12, numLayers: 2, dropout: 0.3, normFirst: true },
      ...{ finalNorm: true, rotary: { dim: 2 }, activation: 'gelu' },
    }).prune([[0], []]),
    shared,
    new heed.Sequential([shared, new heed.LayerNorm({ normalizedShape: embedDim }), new heed.Dropout({ p: 0.1 })]),
    new heed.BatchNorm({ numFeatures: embedDim }),
    new heed.MultiHeadAttention({ embedDim, numHeads: 2, keyDim: 3, dropout: 0.1 }),
    new heed.Linear({ inFeatures: embedDim, outFeatures: 7, bias: false }),
  ];
  const model = new heed.Sequential(parts, { seed });
  // Pruned layers have loaded values, which must not be initialized again.
  model.loadStateDict(
    Object.fromEntries(
      Object.entries(model.stateDict()).map(([name, { data, shape }]) => [
        name,
        { data: name.startsWith('3.') ? data.map((_, i) => Math.sin(i + seed) / 3 + 0.1) : data, shape },
      ]),
    ),
  );
  return model;
}

/** Two equal models. The dropout of a pruned layer has a random seed, so the second copies that of the first. */
function makePair(): [Sequential, Sequential] {
  const [a, b] = [makeModel(), makeModel()];
  heed.loadCheckpoint(heed.saveCheckpoint({ model: a }), { model: b });
  return [a, b];
}

const options = { loss: 'crossEntropy', batchSize: 8, seed: 5, epochs: 3 } as const;
const sgd = (model: Sequential) => new heed.optim.SGD(model.parameters(), { lr: 0.02, momentum: 0.9 });
const stateOf = (model: Sequential, optimizer: ReturnType<typeof sgd>) => heed.saveCheckpoint({ model, optimizer });

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'no error',
    (error) => error,
  );
}

describe('fit in a worker', () => {
  test('has the result of the page, bit for bit', async () => {
    const runs = [];
    const models = makePair();
    for (const [i, model] of models.entries()) {
      model.freeze('1.*');
      // Parameters of the layers themselves, whose names lack the model's prefix.
      const [embedding, ...others] = model.parts as unknown as { parameters(): never[] }[];
      const rest = model.parameters().filter(({ name }) => !name.startsWith('0.'));
      expect(others).toHaveLength(8);
      const optimizer = new heed.optim.AdamW([
        { params: embedding!.parameters(), lr: 0.01 },
        { params: rest, weightDecay: 0.1 },
      ]);
      const schedule = heed.optim.schedules.linear(optimizer, { warmup: 2, steps: 20 });
      const steps: unknown[] = [];
      const run = (worker: boolean, initialEpoch: number, epochs: number) =>
        model.fit(data, {
          ...{ ...options, optimizer, schedule, clipNorm: 1, initialEpoch, epochs, worker },
          ...{ validation: 0.2, earlyStopping: { patience: 2 } },
          onStep: (progress) => void steps.push(progress),
        });
      // Afterwards, training continues in this thread with the worker's result.
      const histories = [await run(i === 1, 0, 3), await run(false, 3, 5)];
      runs.push({ histories, steps, state: heed.saveCheckpoint({ model, optimizer, schedule }) });
    }
    expect(runs[0]!.steps.length).toBeGreaterThan(6);
    expect(runs[1]).toEqual(runs[0]);
  });

  test('with tensors and validation data', async () => {
    const runs = [];
    const x = { data: Int32Array.from(inputs.flat()), shape: [21, 5] };
    for (const worker of [false, true]) {
      const model = new heed.Sequential(
        [new heed.Embedding({ numEmbeddings: 7, embedDim }), new heed.Linear({ inFeatures: embedDim, outFeatures: 7 })],
        { seed: 1 },
      );
      const optimizer = sgd(model);
      const history = await model.fit({ inputs: x, labels: x }, { ...options, optimizer, validation: data, worker });
      runs.push({ history, state: stateOf(model, optimizer) });
    }
    expect(runs[1]).toEqual(runs[0]);
  });

  test('stops on a signal, after a whole step', async () => {
    const model = makeModel();
    const stop = new AbortController();
    const before = model.stateDict();
    const promise = model.fit(data, {
      ...{ ...options, optimizer: sgd(model), epochs: 2 ** 20, worker: true, signal: stop.signal },
      onStep: ({ step }) => step === 3 && stop.abort(),
    });
    expect(await errorOf(promise)).toBe(stop.signal.reason);
    expect(model.stateDict()).not.toEqual(before);
    const next = model.fit(data, { ...options, optimizer: sgd(model), worker: true, signal: stop.signal });
    expect(await errorOf(next)).toBe(stop.signal.reason);
  });

  test('passes on what onStep throws, and stops', async () => {
    const model = makeModel();
    const error = new Error('mine');
    const onStep = () => {
      throw error;
    };
    expect(
      await errorOf(model.fit(data, { ...options, optimizer: sgd(model), epochs: 2 ** 20, worker: true, onStep })),
    ).toBe(error);
  });

  test('diverges as in the page', async () => {
    const states = [];
    for (const worker of [false, true]) {
      const model = new heed.Sequential([new heed.Linear({ inFeatures: 1, outFeatures: 1 })], { seed: 1 });
      const optimizer = sgd(model);
      const bad = { inputs: [[1], [2], [3], [1e38]], labels: [[1], [2], [3], [4]] };
      const error = await errorOf(model.fit(bad, { loss: 'mse', optimizer, batchSize: 1, epochs: 3, seed: 2, worker }));
      expect(error).toBeInstanceOf(HeedError);
      expect(error).toMatchObject({ code: 'DIVERGED' });
      states.push(stateOf(model, optimizer));
    }
    expect(states[1]).toEqual(states[0]);
  });
});

describe('a worker that fails', () => {
  const scripts = {
    'ends at once': 'process.exit(3)',
    'ends when it is called': "require('node:worker_threads').parentPort.on('message', () => process.exit(4))",
    throws: "require('node:worker_threads').parentPort.on('message', () => { throw new Error('broken') })",
  };
  test.each(Object.entries(scripts))('%s', async (_, script) => {
    const model = makeModel();
    const optimizer = sgd(model);
    const before = stateOf(model, optimizer);
    const worker = new Worker(script, { eval: true });
    const error = await errorOf(model.fit(data, { ...options, optimizer, worker: worker as never }));
    expect(error).toMatchObject({ code: 'WORKER_FAILED' });
    expect(stateOf(model, optimizer)).toEqual(before);
    await model.fit(data, { ...options, optimizer, epochs: 1 });
  });

  test('ends in the middle', async () => {
    const model = makeModel();
    const optimizer = sgd(model);
    const before = stateOf(model, optimizer);
    const worker = new Worker(new URL('../../../dist/train-worker.js', import.meta.url));
    const error = await errorOf(
      model.fit(data, {
        ...{ ...options, optimizer, epochs: 2 ** 20, worker: worker as never },
        onStep: ({ step }) => void (step === 2 && worker.terminate()),
      }),
    );
    expect(error).toMatchObject({ code: 'WORKER_FAILED' });
    expect(stateOf(model, optimizer)).toEqual(before);
  });

  test('is ended when heed is disposed of', async () => {
    const other = await load();
    const model = new other.Sequential([new other.Linear({ inFeatures: 1, outFeatures: 1 })]);
    const error = await errorOf(
      model.fit(
        { inputs: [[1]], labels: [[1]] },
        {
          ...({ loss: 'mse', epochs: 2 ** 20, worker: true } as const),
          optimizer: new other.optim.SGD(model.parameters()),
          onStep: () => other.dispose(),
        },
      ),
    );
    expect(error).toMatchObject({ code: 'DISPOSED' });
  });
});

describe('what cannot be sent to a worker is refused', () => {
  const linear = () => new heed.Linear({ inFeatures: 8, outFeatures: 7 });
  const embedding = () => new heed.Embedding({ numEmbeddings: 7, embedDim: 8 });
  test.each<[string, () => unknown, string]>([
    ['a function', () => new heed.Sequential([embedding(), (x) => x as never, linear()]), 'a function, part 1'],
    [
      'a Module of one’s own',
      () => {
        class Own extends heed.Module {
          part = linear();
          forward(x: never) {
            return this.part.forward(x);
          }
        }
        return new heed.Sequential([embedding(), new heed.Sequential([new Own() as never])]);
      },
      'an Own, part 1.0',
    ],
    [
      'a class of one’s own',
      () => {
        class Own extends (heed.Linear as unknown as new (options: object) => { forward(x: never): never }) {}
        return new heed.Sequential([embedding(), new Own({ inFeatures: 8, outFeatures: 7 }) as never]);
      },
      'an Own, part 1',
    ],
  ])('%s', async (_, make, message) => {
    const model = make() as Sequential;
    const error = await errorOf(model.fit(data, { ...options, optimizer: sgd(model), worker: true }));
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining(message) });
  });

  test('a loss, batches and an optimizer of other parameters', async () => {
    const model = makeModel();
    const optimizer = sgd(model);
    for (const change of [
      { loss: () => heed.losses.mse([1], [1]) },
      { validation: [data] },
      { optimizer: sgd(makeModel()) },
    ]) {
      const error = await errorOf(model.fit(data, { ...options, optimizer, worker: true, ...change }));
      expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
    expect(await errorOf(model.fit([data], { ...options, optimizer, worker: true }))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    const odd = { inputs: inputs.map(() => () => 1), labels };
    expect(await errorOf(model.fit(odd, { ...options, optimizer, worker: true }))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});
