// fit({ workers }): batches divided among worker_threads.
import { Worker } from 'node:worker_threads';
import { type FitOptions, load, type Sequential, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});
afterAll(() => heed.dispose());

const script = new URL('../../../dist/train-worker.js', import.meta.url);
const embedDim = 8;
const inputs = Array.from({ length: 21 }, (_, n) => Array.from({ length: 5 }, (_, i) => (n * 3 + i * i) % 7));
// Some labels are ignored, so that parts have different numbers of labels.
const labels = inputs.map((row, n) => row.map((id, i) => (i < n % 5 ? -100 : (id + 1) % 7)));
const data = { inputs, labels };
const options = { loss: 'crossEntropy', batchSize: 8, seed: 5, epochs: 2 } as const;

const makeModel = (dropout = 0.3) =>
  new heed.Sequential(
    [
      new heed.Embedding({ numEmbeddings: 7, embedDim }),
      new heed.PositionalEncoding({ embedDim, maxLength: 5 }),
      new heed.Dropout({ p: dropout }),
      new heed.Encoder({ embedDim, numHeads: 2, feedForwardDim: 12, numLayers: 2, dropout }),
      new heed.LayerNorm({ normalizedShape: embedDim }),
      new heed.Linear({ inFeatures: embedDim, outFeatures: 7 }),
    ],
    { seed: 1 },
  );
const forever = { ...options, epochs: 2 ** 20 };
const adam = (model: Sequential) => new heed.optim.AdamW(model.parameters(), { lr: 0.01 });

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'no error',
    (error) => error,
  );
}

/** Trains a new model and returns all values that training changes. */
async function trained(more: Partial<FitOptions>, dropout?: number, change = (_: Sequential) => {}) {
  const model = makeModel(dropout);
  change(model);
  const optimizer = adam(model);
  const schedule = heed.optim.schedules.linear(optimizer, { warmup: 2, steps: 20 });
  const steps: unknown[] = [];
  const onStep = (progress: unknown) => void steps.push(progress);
  const history = await model.fit(data, { ...options, optimizer, schedule, clipNorm: 1, onStep, ...more });
  return { model, history, steps, state: heed.saveCheckpoint({ model, optimizer, schedule }) };
}

const values = (model: Sequential) => Object.values(model.stateDict()).flatMap(({ data }) => [...data]);

describe('fit on several workers', () => {
  test('has the same bits for any number of them', async () => {
    const runs = [];
    for (const workers of [1, 2, 3, 4, 8]) {
      const { history, steps, state } = await trained({ workers, validation: 0.2, earlyStopping: { patience: 3 } });
      runs.push({ history, steps, state });
    }
    for (const run of runs.slice(1)) expect(run).toEqual(runs[0]);
  });

  test('measures metrics as training in one piece does', async () => {
    const metrics = ['mae', 'rmse', 'r2Score'] as const;
    const numbers = { inputs, labels: inputs.map((row) => row.map((id) => [Math.sin(id)])) };
    const fitted = async (workers: number | undefined) => {
      const table = new heed.Embedding({ numEmbeddings: 7, embedDim });
      const model = new heed.Sequential([table, new heed.Linear({ inFeatures: embedDim, outFeatures: 1 })], {
        seed: 1,
      });
      const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
      const how = { loss: 'mse', batchSize: 8, seed: 5, epochs: 2, validation: 0.2 } as const;
      return model.fit(numbers, { ...how, optimizer, metrics: [...metrics], ...(workers && { workers }) });
    };
    const [whole, one] = [await fitted(undefined), await fitted(1)];
    for (const list of ['metrics', 'validationMetrics'] as const)
      for (const name of metrics)
        for (const epoch of [0, 1]) expect(one[list]![name]![epoch]).toBeCloseTo(whole[list]![name]![epoch]!, 5);
    for (const workers of [2, 3]) expect(await fitted(workers)).toEqual(one);
  });

  test('measures accuracy if some labels are ignored', async () => {
    const accuracies = [];
    for (const workers of [undefined, 1, 3])
      accuracies.push((await trained({ ...(workers && { workers }), metrics: ['accuracy'] })).history.metrics);
    expect(accuracies[0]!.accuracy!.every((value) => value > 0 && value < 1)).toBe(true);
    expect(accuracies).toEqual([accuracies[0], accuracies[0], accuracies[0]]);
  });

  test('equals training in one piece up to rounding, with the same draws of dropout', async () => {
    const sgd = async (workers: number | undefined, dropout = 0.3) => {
      const model = makeModel(dropout);
      const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
      const { loss } = await model.fit(data, { ...options, optimizer, clipNorm: 1, ...(workers && { workers }) });
      return [...loss, ...values(model)];
    };
    const whole = await sgd(undefined);
    const furthest = (other: number[]) => Math.max(...other.map((value, i) => Math.abs(value - whole[i]!)));
    expect(furthest(await sgd(2))).toBeLessThan(1e-5);
    expect(furthest(await sgd(undefined, 0.31))).toBeGreaterThan(1e-3); // with other random numbers
  });

  test.each(['mse', 'triplet', 'cosineEmbedding'] as const)('divides %s', async (loss) => {
    const runs = [];
    const x = Array.from({ length: 10 }, (_, n) => [1, 2, 3].map((i) => [Math.sin(n * i), Math.cos(n + i)]));
    const tensors = loss === 'cosineEmbedding' ? x.map((rows) => rows.slice(1)) : x;
    const targets = { mse: tensors, triplet: undefined, cosineEmbedding: x.map((_, n) => (n % 3 ? 1 : -1)) }[loss];
    for (const workers of [undefined, 1, 2]) {
      const model = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 2 })], { seed: 1 });
      const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
      await model.fit(
        { inputs: tensors, ...(targets && { labels: targets }) },
        { loss, optimizer, batchSize: 4, seed: 1, ...(workers && { workers }) },
      );
      runs.push(values(model));
    }
    expect(runs[2]).toEqual(runs[1]);
    for (const [i, value] of runs[0]!.entries()) expect(runs[1]![i]).toBeCloseTo(value, 5);
  });

  test('steps with a batch without any weight as training in one piece does', async () => {
    const x = Array.from({ length: 16 }, (_, i) => [Math.sin(i), Math.cos(i)]);
    const examples = { inputs: x, labels: x.map(([a]) => [a!]) };
    const sampleWeight = x.map((_, i) => Number(i === 0)); // one of two batches has a weight
    const runs = [];
    for (const workers of [undefined, 1, 2]) {
      const model = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 1 })], { seed: 1 });
      const optimizer = new heed.optim.Adam(model.parameters(), { lr: 0.1 });
      const how = { loss: 'mse', batchSize: 8, epochs: 3, seed: 1, sampleWeight, optimizer } as const;
      runs.push([...(await model.fit(examples, { ...how, ...(workers && { workers }) })).loss, ...values(model)]);
    }
    expect(runs[2]).toEqual(runs[1]);
    for (const [i, value] of runs[0]!.entries()) expect(runs[1]![i]).toBeCloseTo(value, 5);
  });

  test('with frozen parameters, a batch of one example and workers that have nothing to do', async () => {
    const runs = [];
    for (const workers of [1, 4]) {
      const { history, state } = await trained({ workers, batchSize: 1, epochs: 1 }, 0.1, (model) =>
        model.freeze(['0.*', '3.*']),
      );
      runs.push({ history, state });
    }
    expect(runs[1]).toEqual(runs[0]);
  });
});

/** The number of steps of a checkpoint's optimizer. */
function stepsIn(checkpoint: Uint8Array): number {
  const end = 8 + Number(new DataView(checkpoint.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(checkpoint.subarray(8, end)));
  return JSON.parse(header.__metadata__.state).optimizer.groups[0].params[0].steps;
}

describe('an end before the last epoch', () => {
  test('by a signal, after a whole step', async () => {
    const [model, other] = [makeModel(), makeModel()];
    const stop = new AbortController();
    const [optimizer, again] = [adam(model), adam(other)];
    const oneStepAnEpoch = { loss: 'crossEntropy', batchSize: 32, seed: 5 } as const;
    const promise = model.fit(data, {
      ...{ ...oneStepAnEpoch, epochs: 2 ** 20, optimizer, workers: 2, signal: stop.signal },
      onStep: ({ step }) => step === 3 && stop.abort(),
    });
    expect(await errorOf(promise)).toBe(stop.signal.reason);
    const after = heed.saveCheckpoint({ model, optimizer });
    const steps = stepsIn(after);
    expect(steps).toBeGreaterThanOrEqual(3);
    await other.fit(data, { ...oneStepAnEpoch, epochs: steps, optimizer: again, workers: 1 });
    expect(after).toEqual(heed.saveCheckpoint({ model: other, optimizer: again }));
  });

  test('by a loss that is not finite, in the part of another worker', async () => {
    const states = [];
    for (const workers of [1, 2]) {
      const model = new heed.Sequential([new heed.Linear({ inFeatures: 1, outFeatures: 1 })], { seed: 1 });
      const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.01, momentum: 0.9 });
      const x = Array.from({ length: 16 }, (_, i) => [i === 15 ? 1e38 : i / 16]);
      const order = { batchSize: 8, epochs: 1, seed: 3 };
      const error = await errorOf(
        model.fit({ inputs: x, labels: x.map(() => [1]) }, { loss: 'mse', optimizer, workers, ...order }),
      );
      expect(error).toMatchObject({ code: 'DIVERGED' });
      expect(values(model).every(Number.isFinite)).toBe(true);
      states.push(heed.saveCheckpoint({ model, optimizer }));
    }
    expect(states[1]).toEqual(states[0]);
  });

  test('before the first step, if one of the workers cannot be used', async () => {
    const model = makeModel();
    const optimizer = adam(model);
    const before = heed.saveCheckpoint({ model, optimizer });
    const unusable = { postMessage: () => { throw new Error('closed'); }, on() {}, terminate() {}, unref() {}, ref() {} }; // biome-ignore format: a stub
    const workers = [new Worker(script), new Worker(script), unusable] as never;
    expect(await errorOf(model.fit(data, { ...forever, optimizer, workers }))).toBeInstanceOf(Error);
    const one = new Worker(script);
    const twice = await errorOf(model.fit(data, { ...forever, optimizer, workers: [one, one] as never }));
    expect(twice).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('different Workers') });
    await one.terminate();
    expect(heed.saveCheckpoint({ model, optimizer })).toEqual(before);
  });

  test.each([0, 1])('by the death of worker %i, which leaves the model as it was', async (which) => {
    const model = makeModel();
    const optimizer = adam(model);
    const before = heed.saveCheckpoint({ model, optimizer });
    const workers = [new Worker(script), new Worker(script)];
    const error = await errorOf(
      model.fit(data, {
        ...{ ...forever, optimizer, workers: workers as never },
        onStep: ({ step }) => void (step === 2 && workers[which]!.terminate()),
      }),
    );
    expect(error).toMatchObject({
      code: 'WORKER_FAILED',
      message: expect.stringMatching(/^fit: a worker .*train-worker/),
    });
    expect(heed.saveCheckpoint({ model, optimizer })).toEqual(before);
    // The other workers continue, and the dead one is rejected.
    const again = { ...options, optimizer, epochs: 1 };
    expect(await errorOf(model.fit(data, { ...again, worker: workers[which] as never }))).toMatchObject({
      code: 'WORKER_FAILED',
    });
    await model.fit(data, { ...again, worker: workers[1 - which] as never });
    await workers[1 - which]!.terminate();
    await model.fit(data, { ...again, workers: 2 });
  });
});

/** A worker that answers `measure` with the bytes of its WebAssembly memory and of its heap. */
const measured = `
  const { parentPort } = require('node:worker_threads');
  const { instantiate } = WebAssembly;
  let memory;
  WebAssembly.instantiate = async (...given) => {
    const instance = await instantiate(...given);
    memory = Object.values(instance.exports).find((each) => each instanceof WebAssembly.Memory);
    return instance;
  };
  import(${JSON.stringify(script.href)}).then(() => parentPort.on('message', async ({ measure }) => {
    if (!measure) return;
    for (let i = 0; i < 5; i++) {
      gc();
      await new Promise(setImmediate); // finalizers run between turns
    }
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    parentPort.postMessage({ wasm: memory.buffer.byteLength, heap: heapUsed + arrayBuffers });
  }));`;

interface Measured {
  wasm: number;
  heap: number;
}

const measure = (worker: Worker) =>
  new Promise<Measured>((resolve) => {
    worker.on('message', (message) => 'wasm' in message && resolve(message));
    worker.postMessage({ measure: true });
  });

describe("workers of the caller's", () => {
  test('go on after a fit, for the next ones', async () => {
    const run = async (workers: number | Worker[]) => {
      const model = makeModel();
      const history = await model.fit(data, { ...options, optimizer: adam(model), workers: workers as never });
      return { history, state: model.stateDict() };
    };
    const expected = await run(2);
    const workers = [new Worker(script), new Worker(script)];
    for (let i = 0; i < 12; i++) expect(await run(workers)).toEqual(expected); // would exceed the number of listeners at which Node warns of a leak
    expect(await run(workers.reverse())).toEqual(expected);
    expect(workers.map((worker) => worker.listenerCount('message'))).toEqual([1, 1]);
    await Promise.all(workers.map((worker) => worker.terminate()));
    expect(await errorOf(run(workers))).toMatchObject({ code: 'WORKER_FAILED' });
  });

  test('go on after a fit that fails or is stopped', async () => {
    const workers = [new Worker(script), new Worker(script)];
    const model = makeModel();
    const optimizer = adam(model);
    const given = { ...forever, optimizer, workers: workers as never };
    const stop = new AbortController();
    const onStep = ({ step }: { step: number }) => void (step === 2 && stop.abort());
    expect(await errorOf(model.fit(data, { ...given, signal: stop.signal, onStep }))).toBe(stop.signal.reason);
    const bad = { inputs, labels: labels.map((row) => row.map(() => 100)) };
    expect(await errorOf(model.fit(bad, given))).toMatchObject({ name: 'HeedError' });
    await model.fit(data, { ...given, epochs: 1 });
    await model.fit(data, { ...options, optimizer, epochs: 1, worker: workers[1] as never });
    await Promise.all(workers.map((worker) => worker.terminate()));
  });

  test('keep the process alive, or not, as the caller decides', async () => {
    const worker = new Worker(script);
    const [ref, unref] = [vi.spyOn(worker, 'ref'), vi.spyOn(worker, 'unref')];
    const model = makeModel();
    await model.fit(data, { ...options, optimizer: adam(model), worker: worker as never });
    expect([ref, unref].map((spy) => spy.mock.calls.length)).toEqual([0, 0]);
    await worker.terminate();
  });

  test('go on after a fit that could not begin', async () => {
    const worker = new Worker(script);
    const model = makeModel();
    const optimizer = adam(model);
    const send = worker.postMessage.bind(worker);
    let isFirst = true;
    const post = vi.spyOn(worker, 'postMessage').mockImplementation((message, ...transfer) => {
      if (isFirst && message.args[1]) {
        message.args[1].checkpoint = new Uint8Array(8);
        isFirst = false;
      }
      send(message, ...transfer);
    });
    const given = { ...options, optimizer, epochs: 1, worker: worker as never };
    expect(await errorOf(model.fit(data, given))).toMatchObject({ name: 'HeedError' });
    await model.fit(data, given);
    expect(post).toHaveBeenCalled();
    await worker.terminate();
  });

  test('go on after a fit whose validation data cannot be sent or is not legal', async () => {
    const workers = [new Worker(script), new Worker(script)];
    const post = workers.map((worker) => vi.spyOn(worker, 'postMessage'));
    const model = makeModel();
    const given = { ...options, optimizer: adam(model), epochs: 1, workers: workers as never };
    let isStarted = false;
    function* failing(): Generator<{ inputs: number[][] }> {
      isStarted = true;
      yield { inputs: [] };
      throw new Error('of the data');
    }
    for (const validation of [failing(), failing]) {
      expect(await errorOf(model.fit(data, { ...given, validation: validation as never }))).toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(/^fit.validation: .*`worker`/),
      });
    }
    // The fit was rejected before it had any worker.
    expect([isStarted, ...post.map(({ mock }) => mock.calls.length)]).toEqual([false, 0, 0]);
    // A getter that throws when it is read for the second time, and values that cannot be cloned.
    let reads = 0;
    const changing = {
      get inputs() {
        if (++reads > 1) throw new Error('of the data');
        return inputs;
      },
      labels,
    };
    const uncloneable = { inputs: inputs.map(() => [() => 1]), labels };
    for (const validation of [changing, uncloneable])
      expect(await errorOf(model.fit(data, { ...given, validation: validation as never }))).toBeInstanceOf(Error);
    await model.fit(data, given);
    expect(workers.map((worker) => worker.listenerCount('message'))).toEqual([1, 1]);
    await Promise.all(workers.map((worker) => worker.terminate()));
  });

  test("end after a fit with illegal validation data, if they are heed's", async () => {
    const [post, end] = [vi.spyOn(Worker.prototype, 'postMessage'), vi.spyOn(Worker.prototype, 'terminate')];
    const model = makeModel();
    const given = { ...options, optimizer: adam(model), workers: 2 };
    // biome-ignore lint/correctness/useYield: it fails before the first batch
    function* failing(): Generator<{ inputs: number[][] }> {
      throw new Error('of the data');
    }
    for (const validation of [failing(), failing])
      expect(await errorOf(model.fit(data, { ...given, validation: validation as never }))).toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
    expect(post).not.toHaveBeenCalled(); // no worker was started
    const uncloneable = { inputs: inputs.map(() => [() => 1]), labels };
    expect(await errorOf(model.fit(data, { ...given, validation: uncloneable as never }))).toBeInstanceOf(Error);
    const started = new Set(post.mock.contexts);
    expect(started.size).toBe(2);
    expect([...started].filter((worker) => !end.mock.contexts.includes(worker))).toHaveLength(0);
    await Promise.all(end.mock.results.map(({ value }) => value));
    vi.restoreAllMocks();
  });

  test('run one fit at a time', async () => {
    const worker = new Worker(script) as never;
    const [a, b] = [makeModel(), makeModel()];
    const first = a.fit(data, { ...options, optimizer: adam(a), worker });
    expect(await errorOf(b.fit(data, { ...options, optimizer: adam(b), worker }))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('workers that no other fit is using'),
    });
    await first;
    await b.fit(data, { ...options, optimizer: adam(b), worker });
    await (worker as Worker).terminate();
  });
});

test('memory is flat in each worker', async () => {
  const workers = [0, 1].map(() => new Worker(measured, { eval: true }));
  const model = makeModel();
  const stop = new AbortController();
  let [early, late]: Measured[][] = [];
  const promise = model.fit(data, {
    ...{ ...options, optimizer: adam(model), epochs: 2 ** 20, workers: workers as never, signal: stop.signal },
    async onStep({ step }) {
      if (step === 200) early = await Promise.all(workers.map(measure));
      if (step === 1200) {
        late = await Promise.all(workers.map(measure));
        stop.abort();
      }
    },
  });
  expect(await errorOf(promise)).toBe(stop.signal.reason);
  for (const [i, { wasm, heap }] of late!.entries()) {
    expect(wasm).toBe(early![i]!.wasm);
    expect(heap - early![i]!.heap).toBeLessThan(5e6); // less than a copy of the parameters for each of the 1000 steps
  }
});

describe('what cannot be divided is refused', () => {
  const linear = () => new heed.Linear({ inFeatures: 2, outFeatures: 2 });
  const rows = Array.from({ length: 4 }, () => [1, 2]);
  const pairs = { inputs: rows.map((row) => [row, row]) };
  test.each<[string, () => Sequential, object, object, object]>([
    [
      'batch norm',
      () => new heed.Sequential([linear(), new heed.BatchNorm({ numFeatures: 2 })]),
      {},
      {},
      { code: 'UNSUPPORTED' },
    ],
    ['infoNCE', () => new heed.Sequential([linear()]), pairs, { loss: 'infoNCE' }, { code: 'UNSUPPORTED' }],
    ['coSENT', () => new heed.Sequential([linear()]), pairs, { loss: 'coSENT' }, { code: 'UNSUPPORTED' }],
    [
      'supervisedContrastive',
      () => new heed.Sequential([linear()]),
      { labels: [0, 1, 0, 1] },
      { loss: 'supervisedContrastive' },
      { code: 'UNSUPPORTED' },
    ],
    [
      'attention between examples',
      () => new heed.Sequential([new heed.Encoder({ embedDim: 2, numHeads: 1, feedForwardDim: 4, numLayers: 1 })]),
      {},
      {},
      { code: 'SHAPE_MISMATCH', message: expect.stringContaining('[N, L, E]') },
    ],
    ['a number of workers', () => new heed.Sequential([linear()]), {}, { workers: 9 }, { code: 'INVALID_ARGUMENT' }],
    ['no workers', () => new heed.Sequential([linear()]), {}, { workers: [] }, { code: 'INVALID_ARGUMENT' }],
    ['what is no worker', () => new heed.Sequential([linear()]), {}, { workers: [true] }, { code: 'INVALID_ARGUMENT' }],
    ['a function', () => new heed.Sequential([linear()]), {}, { loss: () => 1 }, { code: 'INVALID_ARGUMENT' }],
  ])('%s', async (_, make, examples, more, expected) => {
    const model = make();
    const optimizer = new heed.optim.SGD(model.parameters());
    const given = { inputs: rows, labels: rows, ...examples };
    const error = await errorOf(model.fit(given, { loss: 'mse', optimizer, workers: 2, ...more } as never));
    expect(error).toMatchObject(expected);
  });
});
