import { HeedError, load, type Optimizer, type Schedule, type Sequential, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, test } from 'vitest';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const length = 5;
const embedDim = 8;

/** Ids and labels of a step. */
function batch(step: number) {
  const ids = Array.from({ length: 3 }, (_, n) => Array.from({ length }, (_, i) => (step * 7 + n * 3 + i * i) % 11));
  return { ids, labels: ids.map((row) => row.map((id) => (id * 3 + 1) % 4)) };
}

/** A model with dropout everywhere, buffers and a frozen parameter. */
function makeModel(seed: number): Sequential {
  const model = new heed.Sequential(
    [
      new heed.Embedding({ numEmbeddings: 11, embedDim }),
      new heed.PositionalEncoding({ embedDim, maxLength: 7, learned: true }),
      new heed.Dropout({ p: 0.1 }),
      new heed.Encoder({ embedDim, numHeads: 2, feedForwardDim: 13, numLayers: 2, dropout: 0.2, normFirst: true }),
      new heed.BatchNorm({ numFeatures: embedDim }),
      new heed.FeedForward({ embedDim, feedForwardDim: 9, dropout: 0.3 }),
      new heed.MultiHeadAttention({ embedDim, numHeads: 2, dropout: 0.4 }),
      new heed.Linear({ inFeatures: embedDim, outFeatures: 4 }),
    ],
    { seed },
  );
  return model.train();
}

interface Run {
  model: Sequential;
  optimizer: Optimizer;
  schedule: Schedule;
}

const kinds = {
  'SGD with momentum': (model: Sequential) =>
    new heed.optim.SGD(model.parameters(), { lr: 0.05, momentum: 0.9, nesterov: true }),
  Adam: (model: Sequential) => new heed.optim.Adam(model.parameters(), { lr: 1e-2 }),
  'AdamW in groups': (model: Sequential) =>
    new heed.optim.AdamW([
      { params: model.parameters().filter(({ name }) => name.endsWith('weight')), weightDecay: 0.1 },
      { params: model.parameters().filter(({ name }) => !name.endsWith('weight')), lr: 1e-2, weightDecay: 0 },
    ]),
};

function makeRun(seed: number, make: (model: Sequential) => Optimizer): Run {
  const model = makeModel(seed);
  const optimizer = make(model);
  return { model, optimizer, schedule: heed.optim.schedules.cosine(optimizer, { warmup: 3, steps: 12 }) };
}

function train({ model, optimizer, schedule }: Run, from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => {
    const { ids, labels } = batch(from + i);
    optimizer.zeroGrad();
    const loss = heed.losses.crossEntropy(model.forward(ids), labels);
    loss.backward();
    optimizer.step();
    schedule.step();
    return loss.item();
  });
}

/** All bits of a run's state. */
const bitsOf = (run: Run) => Buffer.from(heed.saveCheckpoint({ ...run })).toString('base64');

describe('a resumed run equals an uninterrupted one bit for bit', () => {
  test.each(Object.keys(kinds))('%s', (kind) => {
    const make = kinds[kind as keyof typeof kinds];
    const whole = makeRun(1, make);
    whole.model.freeze('1.*');
    train(whole, 0, 4);
    const bytes = heed.saveCheckpoint({ ...whole });
    const losses = train(whole, 4, 9);

    const resumed = makeRun(2, make);
    train(resumed, 5, 7); // gives it a different state
    heed.loadCheckpoint(bytes, { ...resumed });
    expect(bitsOf(resumed)).toBe(Buffer.from(bytes).toString('base64'));
    expect(resumed.schedule.count).toBe(4);
    expect(train(resumed, 4, 9)).toEqual(losses);
    expect(bitsOf(resumed)).toBe(bitsOf(whole));
    // Dropout continues with different numbers; without dropout, the test could not fail.
    const { ids } = batch(0);
    const first = resumed.model.forward(ids);
    expect(first.data).toEqual(whole.model.forward(ids).data);
    expect(resumed.model.forward(ids).data).not.toEqual(first.data);
  });
});

test('the draws of every layer with dropout are kept', () => {
  const options = { embedDim, numHeads: 2, feedForwardDim: 8, dropout: 0.5 };
  const x = Array.from({ length: 6 }, (_, i) => Array.from({ length: embedDim }, (_, j) => Math.sin(i * 8 + j) + 2));
  type Single = { train(): unknown; dispose(): void };
  const makers: Record<string, () => [Single, () => Float32Array]> = {
    Dropout: () => {
      const layer = new heed.Dropout();
      return [layer, () => layer.forward(x).data];
    },
    FeedForward: () => {
      const layer = new heed.FeedForward({ embedDim, feedForwardDim: 8, dropout: 0.5 });
      return [layer, () => layer.forward(x).data];
    },
    MultiHeadAttention: () => {
      const layer = new heed.MultiHeadAttention({ embedDim, numHeads: 2, dropout: 0.5 });
      return [layer, () => layer.forward(x).output.data];
    },
    EncoderLayer: () => {
      const layer = new heed.EncoderLayer(options);
      return [layer, () => layer.forward(x).output.data];
    },
    Encoder: () => {
      const layer = new heed.Encoder({ ...options, numLayers: 2 });
      return [layer, () => layer.forward(x).output.data];
    },
    DecoderLayer: () => {
      const layer = new heed.DecoderLayer(options);
      return [layer, () => layer.forward(x, x).output.data];
    },
    Decoder: () => {
      const layer = new heed.Decoder({ ...options, numLayers: 2 });
      return [layer, () => layer.forward(x, x).output.data];
    },
    Transformer: () => {
      const layer = new heed.Transformer({ ...options, numEncoderLayers: 1, numDecoderLayers: 2 });
      return [layer, () => layer.forward(x, x).output.data];
    },
  };
  for (const [name, make] of Object.entries(makers)) {
    const [[layer, run], [other, runOther]] = [make(), make()];
    layer.train();
    other.train();
    run();
    heed.loadCheckpoint(heed.saveCheckpoint({ model: layer as never }), { model: other as never });
    const [first, second] = [run(), run()];
    expect(runOther(), name).toEqual(first);
    expect(runOther(), name).toEqual(second);
    expect(first, name).not.toEqual(second);
    layer.dispose();
    other.dispose();
  }
});

test('the optimizer and the schedule may be left out', () => {
  const run = makeRun(1, kinds.Adam);
  train(run, 0, 2);
  const bytes = heed.saveCheckpoint({ ...run });
  const model = makeModel(3);
  heed.loadCheckpoint(bytes.buffer, { model });
  expect(model.stateDict()).toEqual(run.model.stateDict());
});

test('rates set by hand are kept', () => {
  const run = makeRun(1, kinds.Adam);
  run.optimizer.paramGroups[0]!.lr = 0.123;
  const other = makeRun(1, kinds.Adam);
  heed.loadCheckpoint(heed.saveCheckpoint({ ...run }), { ...other });
  expect(other.optimizer.paramGroups[0]!.lr).toBe(0.123);
});

/** Expects an error of one of `codes`, and that the run is as it was. */
function expectRefusal(run: Run, codes: string[], body: () => void) {
  const before = bitsOf(run);
  let error: unknown;
  try {
    body();
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(HeedError);
  expect(codes).toContain((error as HeedError).code);
  expect(bitsOf(run)).toBe(before);
}

describe('what does not fit is refused, and nothing is written', () => {
  let bytes: Uint8Array<ArrayBuffer>;
  let run: Run;
  beforeAll(() => {
    const source = makeRun(1, kinds.Adam);
    train(source, 0, 3);
    bytes = heed.saveCheckpoint({ ...source });
    run = makeRun(2, kinds.Adam);
    train(run, 0, 1);
  });

  test('another model', () => {
    const linear = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 2 })]);
    const other = { ...run, model: linear };
    expectRefusal(other, ['INVALID_ARGUMENT'], () => heed.loadCheckpoint(bytes, { ...other }));
    const wide = new heed.Linear({ inFeatures: 3, outFeatures: 2 });
    const state = heed.saveCheckpoint({ model: new heed.Linear({ inFeatures: 2, outFeatures: 2 }) });
    expect(() => heed.loadCheckpoint(state, { model: wide })).toThrow(
      expect.objectContaining({ code: 'SHAPE_MISMATCH' }),
    );
  });

  test.each([
    ['another kind', () => new heed.optim.AdamW(run.model.parameters(), { lr: 1e-2 })],
    ['other options', () => new heed.optim.Adam(run.model.parameters(), { lr: 1e-2, betas: [0.8, 0.99] })],
    ['other parameters', () => new heed.optim.Adam(run.model.parameters().slice(1), { lr: 1e-2 })],
  ])('an optimizer of %s', (_, make) => {
    const other = { ...run, optimizer: make() };
    expectRefusal(other, ['INVALID_ARGUMENT'], () => heed.loadCheckpoint(bytes, { ...other }));
  });

  test('another schedule', () => {
    for (const schedule of [
      heed.optim.schedules.cosine(run.optimizer, { warmup: 3, steps: 13 }),
      heed.optim.schedules.constant(run.optimizer, { warmup: 3 }),
    ])
      expectRefusal({ ...run, schedule }, ['INVALID_ARGUMENT'], () => heed.loadCheckpoint(bytes, { ...run, schedule }));
  });

  test('a checkpoint without an optimizer', () => {
    const alone = heed.saveCheckpoint({ model: makeModel(1) });
    expectRefusal(run, ['INVALID_ARGUMENT'], () => heed.loadCheckpoint(alone, { ...run }));
  });

  test('what is no checkpoint', () => {
    for (const given of [
      null,
      'bytes',
      {},
      [],
      new Uint8Array(),
      new Uint8Array(100).fill(255),
      new DataView(new ArrayBuffer(9)),
    ])
      expectRefusal(run, ['INVALID_ARGUMENT', 'INVALID_FILE'], () => heed.loadCheckpoint(given as never, { ...run }));
    for (const parts of [null, {}, { model: 1 }, { model: run.model, optimiser: run.optimizer }])
      expectRefusal(run, ['INVALID_ARGUMENT'], () => heed.loadCheckpoint(bytes, parts as never));
  });

  test('truncated files', () => {
    for (let end = 0; end < bytes.length; end += 97)
      expectRefusal(run, ['INVALID_FILE'], () => heed.loadCheckpoint(bytes.slice(0, end), { ...run }));
  });

  // biome-ignore lint/suspicious/noExplicitAny: JSON of a file
  type Json = Record<string, any>;

  /** The file with a changed header. */
  function changed(change: (header: Json, state: Json) => void): Uint8Array {
    const end = 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, end)));
    const state = JSON.parse(header.__metadata__.state);
    change(header, state);
    if (header.__metadata__?.state !== undefined) header.__metadata__.state = JSON.stringify(state);
    const json = new TextEncoder().encode(JSON.stringify(header));
    const file = new Uint8Array(8 + json.length + bytes.length - end);
    new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
    file.set(json, 8);
    file.set(bytes.subarray(end), 8 + json.length);
    return file;
  }

  test.each<[string, Parameters<typeof changed>[0]]>([
    ['no metadata', (header) => delete header.__metadata__],
    ['another format', (header) => Object.assign(header.__metadata__, { format: 'pt' })],
    ['a newer version', (header) => Object.assign(header.__metadata__, { version: '2' })],
    ['a missing tensor', (header) => rename(header, 'model.0.weight', 'model.9.weight')],
    ['a missing moment', (header) => rename(header, 'optimizer.0.exp_avg', 'optimizer.0.other')],
    ['a misshapen tensor', (header) => header['model.0.weight'].shape.reverse()],
    ['a misshapen moment', (header) => header['optimizer.0.exp_avg'].shape.reverse()],
    ['another dtype', (header) => Object.assign(header['model.0.weight'], { dtype: 'I32' })],
    ['negative steps', (_, { optimizer }) => Object.assign(optimizer.groups[0].params[0], { steps: -1 })],
    ['steps as text', (_, { optimizer }) => Object.assign(optimizer.groups[0].params[0], { steps: '1' })],
    ['no moments of a name', (_, { optimizer }) => optimizer.groups[0].params[0].moments.reverse()],
    ['a huge shape', (_, { optimizer }) => Object.assign(optimizer.groups[0].params[0], { shape: [2 ** 40] })],
    ['no groups', (_, { optimizer }) => Object.assign(optimizer, { groups: [] })],
    ['a rate that is not a number', (_, { optimizer }) => Object.assign(optimizer.groups[0], { lr: null })],
    ['a negative rate', (_, { optimizer }) => Object.assign(optimizer.groups[0], { lr: -1 })],
    ['too few numbers of dropout', (_, { layers }) => layers[2].dropout.pop()],
    ['a word of dropout too large', (_, { layers }) => layers[2].dropout.fill(2 ** 32)],
    ['a frozen parameter that does not exist', (_, { frozen }) => frozen.push('x')],
    ['a schedule without rates', (_, { schedule }) => schedule.rates.pop()],
    ['a schedule of another kind', (_, { schedule }) => Object.assign(schedule, { kind: 'toString' })],
    ['another member', (_, state) => Object.assign(state, { more: 1 })],
    ['no layers', (_, state) => delete state.layers],
  ])('%s', (_, change) => {
    expectRefusal(run, ['INVALID_FILE', 'INVALID_ARGUMENT', 'SHAPE_MISMATCH', 'UNSUPPORTED'], () =>
      heed.loadCheckpoint(changed(change), { ...run }),
    );
  });

  test('the unchanged file fits', () => {
    heed.loadCheckpoint(
      changed(() => {}),
      { ...run },
    );
    expect(bitsOf(run)).toBe(Buffer.from(bytes).toString('base64'));
  });
});

function rename(header: Record<string, unknown>, from: string, to: string) {
  header[to] = header[from];
  delete header[from];
}
