// Pretrained encoders, tasks, indexes and pipelines under any arguments: a result or a HeedError, and the model answers as before.
import fc from 'fast-check';
import * as heed from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyModel } from '../models/tiny.js';
import { changed, extent, fail, filled, flag, isRecord, options, or, real, resolved, runs, tensor } from './values.js';

const codes = [
  'INVALID_ARGUMENT',
  'SHAPE_MISMATCH',
  'OUT_OF_MEMORY',
  'INVALID_FILE',
  'NOT_FOUND',
  'UNSUPPORTED',
  'TOO_LONG',
  'NETWORK',
  'WORKER_FAILED',
];

const files = tinyModel();
let runtime: heed.Heed;
let here: heed.PretrainedModel;
let inWorker: heed.PretrainedModel;
let pool: heed.PretrainedModel;
let expected: heed.Tensor;

beforeAll(async () => {
  runtime = await heed.load();
  here = await runtime.fromPretrained(files);
  inWorker = await runtime.fromPretrained(files, { worker: true });
  pool = await runtime.fromPretrained(files, { workers: 2 });
  expected = await here.embed('the quick fox');
});
afterAll(() => {
  for (const model of [here, inWorker, pool]) model.dispose();
});

// --- values -------------------------------------------------------------------------------------------------------------------------------

const word = fc.constantFrom('the quick fox', '', 'x 0123', '\ud800', '[MASK]', 'a\0b', 'the '.repeat(60));
const texts = fc.oneof(word, fc.array(or(word), { maxLength: 3 }), fc.array(word, { minLength: 20, maxLength: 20 }));
const id = or(
  fc.oneof({ weight: 20, arbitrary: fc.nat(79) }, { weight: 1, arbitrary: fc.constantFrom(80, -1, 0.5, 2 ** 32) }),
);
const bit = or(fc.nat(1));
const list = (entry: fc.Arbitrary<unknown>) => or(fc.array(or(fc.array(entry, { maxLength: 5 })), { maxLength: 3 }));
const rows = (entry: fc.Arbitrary<unknown>) => fc.oneof(list(entry), fc.tuple(fc.tuple(entry, entry, entry)));
const input = or(
  fc.oneof(
    texts,
    options({ inputIds: rows(id), attentionMask: rows(bit), tokenTypeIds: rows(bit) }, ['inputIds']),
    fc.constantFrom({ inputIds: [new Int32Array([1, 2])] }, { inputIds: [new BigInt64Array([1n, 2n])] }),
  ),
);
const callback = fc.constant(() => {});

/** The arguments of a call, without callbacks that throw, because their errors are passed on and are not heed's. */
function ready(values: readonly unknown[]): unknown[] {
  const harmless = values.map((value) =>
    isRecord(value) ? changed(value, (entry) => (entry[1] === fail ? [] : [entry])) : value,
  );
  return real(harmless);
}

const callOptions = {
  signal: fc.constant(new AbortController().signal),
  onProgress: callback,
  headMask: fc.oneof(filled([3, 3]), tensor()),
  textPairs: texts,
  truncation: flag,
  maxLength: fc.integer({ min: 1, max: 40 }),
};
const embedOptions = {
  ...callOptions,
  pooling: fc.constantFrom('mean', 'cls', 'last', 'max'),
  normalize: flag,
  dimensions: fc.integer({ min: 1, max: 24 }),
  prompt: word,
  promptName: word,
};
const head = or(fc.constantFrom('sequence-classification', 'token-classification', 'question-answering', 'fill-mask'));
const topK = fc.oneof(extent, fc.constant(Infinity));
const matrix = fc.oneof(tensor(2, 2), filled([3, 4]), filled([2, 4]));

const methods: [string, fc.Arbitrary<unknown>[]][] = [
  [
    'encode',
    [input, options({ ...callOptions, outputAttentions: flag, outputHiddenStates: flag, outputProjections: flag })],
  ],
  ['embed', [input, options(embedOptions)]],
  ['tokenize', [input, options({ textPairs: texts, truncation: flag, maxLength: extent })]],
  ['predict', [head, input, options(callOptions)]],
  ['decode', [or(fc.array(id))]],
];

/** A model, or an invalid value instead. */
const model = or(fc.constant('model'));
const taskOptions = { signal: callOptions.signal, topK };
const tasks: [string, fc.Arbitrary<unknown>[]][] = [
  ['similarity', [or(matrix), or(matrix)]],
  ['semanticSearch', [or(matrix), or(matrix), options({ topK })]],
  ['attentionRollout', [or(fc.array(or(fc.oneof(filled([1, 2, 3, 3]), tensor(4, 4))), { maxLength: 3 }))]],
  ['classifyImages', [model, or(fc.array(tensor(4, 4))), options(taskOptions)]],
  ['classify', [model, or(texts), options({ ...taskOptions, textPairs: texts })]],
  [
    'classifyTokens',
    [
      model,
      or(texts),
      options({ aggregation: fc.constantFrom('none', 'simple', 'first', 'average', 'max'), ignoreLabels: texts }),
    ],
  ],
  ['fillMask', [model, or(texts), options(taskOptions)]],
  [
    'rerank',
    [model, or(word), or(texts), options({ ...taskOptions, activation: fc.constantFrom('identity', 'sigmoid') })],
  ],
  ['answerQuestion', [model, or(word), or(word), options({ ...taskOptions, maxAnswerLength: extent })]],
];

/** Awaits a value that may not be a promise. */
const asked = (call: () => unknown) => resolved(codes, async () => call());

async function works(model: heed.PretrainedModel) {
  expect((await model.embed('the quick fox')).data).toEqual(expected.data);
}

type Callable = (...given: unknown[]) => unknown;

describe.each([
  ['here', () => here],
  ['in a worker', () => inWorker],
  ['in two workers', () => pool],
])('a model %s', (place, chosen) => {
  it.each(methods)('%s', async (name, given) => {
    const model = chosen();
    let results = 0;
    await fc.assert(
      fc.asyncProperty(fc.tuple(...given), async (values) => {
        if (await asked(() => (model as unknown as Record<string, Callable>)[name]!(...ready(values)))) results++;
        await works(model);
      }),
      { numRuns: place === 'here' ? runs : Math.ceil(runs / 5) },
    );
    if (name !== 'predict' && runs >= 100) expect(results).toBeGreaterThan(0);
  });
});

describe('tasks', () => {
  it.each(tasks)('%s', async (name, given) => {
    await fc.assert(
      fc.asyncProperty(fc.tuple(...given), async (values) => {
        const made = ready(values).map((value) => (value === 'model' ? here : value));
        await asked(() => (heed as unknown as Record<string, Callable>)[name]!(...made));
      }),
      { numRuns: runs },
    );
    await works(here);
  });

  it('TextIndex', async () => {
    const source = or(
      fc.record({ 'words.txt': or(fc.constantFrom('a', 'a\nb')), 'index.safetensors': or(fc.uint8Array()) }),
    );
    const lines = or(fc.oneof(fc.tuple(word, word, word), fc.array(or(word), { maxLength: 3 })));
    const query = or(fc.oneof(filled([4]), filled([1, 4]), tensor(), fc.constant(new Float32Array(4))));
    await fc.assert(
      fc.asyncProperty(lines, or(matrix), query, options({ topK }), source, async (words, vectors, asks, o, from) => {
        // A promise if the first argument is a function, which embeds texts.
        const index = await resolved(codes, async () =>
          runtime.TextIndex.of(real(words) as string[], real(vectors) as heed.Tensor),
        );
        if (index) {
          await resolved(codes, async () => index.search(real(asks) as heed.Tensor, real(o) as object));
          index.toTensor();
          await resolved(codes, () =>
            runtime.TextIndex.load({ 'words.txt': index.texts.join('\n'), 'index.safetensors': index.toSafetensors() }),
          );
        }
        await resolved(codes, () => runtime.TextIndex.load(real(from) as never));
      }),
      { numRuns: runs },
    );
  });
});

describe('loading', () => {
  const source = or(
    fc.oneof(
      fc.constant(files),
      fc.record(Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, or(fc.constant(bytes))]))),
      // Strings that denote sources that no server could serve.
      fc.constantFrom(
        'file://nowhere/x',
        'file:///a%2Fb',
        'https://',
        'data:x',
        'blob:x',
        'http://127.0.0.1:9/',
        'a/b',
        'a\0b',
        '/',
        '.',
      ),
      fc.constantFrom({ href: 'x', protocol: '' }, { href: 'data:x' }, { href: 3 }),
    ),
  );
  const loadOptions = options({
    dtype: fc.constantFrom('fp32', 'q8'),
    onProgress: callback,
    signal: callOptions.signal,
    remoteHost: fc.constantFrom('http://127.0.0.1:9/', 'no host', ''),
    revision: word,
    cache: fc.constant(false),
    integrity: fc.constantFrom({}, { 'config.json': 'sha256-x' }, { x: `sha256-${'0'.repeat(64)}` }),
    worker: flag,
    workers: fc.constantFrom(1, 0, 65),
  });

  it('fromPretrained', async () => {
    let loaded = 0;
    await fc.assert(
      fc.asyncProperty(source, loadOptions, async (from, o) => {
        const made = await resolved(codes, () => runtime.fromPretrained(...(ready([from, o]) as [never, never])));
        if (!made) return;
        loaded++;
        await works(made).catch(() => {}); // int8 differs
        made.dispose();
      }),
      { numRuns: runs },
    );
    expect(loaded).toBeGreaterThan(0);
    await works(here);
  });

  it('pipeline', async () => {
    const task = or(
      fc.constantFrom('feature-extraction', 'text-classification', 'ner', 'fill-mask', 'question-answering'),
    );
    const made = options({
      progress_callback: callback,
      device: fc.constantFrom('wasm', 'auto'),
      dtype: fc.constantFrom('fp32', 'q8'),
    });
    const called = options({
      pooling: fc.constantFrom('none', 'mean', 'eos'),
      normalize: flag,
      top_k: topK,
      ignore_labels: texts,
    });
    await fc.assert(
      fc.asyncProperty(task, made, or(texts), called, async (name, o, given, call) => {
        const pipe = (await resolved(codes, () =>
          heed.pipeline(real(name) as 'ner', files, ...(ready([o]) as [never])),
        )) as unknown as Callable & heed.Pipeline<'ner'>;
        if (!pipe) return;
        const argument =
          name === 'question-answering' ? ['the fox', real(given), real(call)] : [real(given), real(call)];
        await asked(() => pipe(...argument));
        await pipe.dispose();
      }),
      { numRuns: Math.ceil(runs / 2) },
    );
  });
});
