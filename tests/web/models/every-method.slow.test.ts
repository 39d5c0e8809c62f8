/**
 * Every method of a model and every task, on every kind of model, has the same results and errors in a worker, in a
 * pool and in this thread. The tables are typed by the declarations, so that a method, an option or a task without an
 * example does not compile. The test also compares the methods with the declarations.
 */
import { readFileSync } from 'node:fs';
import * as api from 'heed';
import { load, type PretrainedModel } from 'heed';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { bytesOf, fixtures } from './fixtures.js';
import { outcomeOf } from './placements.js';
import { tinyClip, tinyModel } from './tiny.js';

const heed = await load();
const json = (value: unknown) => JSON.stringify(value);

/** A list that is long enough for a pool to divide. */
const words = ['fox', 'the', 'quick', 'brown', 'a', '[MASK]', ','];
const many = Array.from({ length: 20 }, (_, i) => words.slice(i % 3, 1 + (i % 3) + ((i * 5) % 7)).join(' '));
const few = ['the quick brown fox', '', 'a [MASK]'];
const ids = { inputIds: Array.from({ length: 12 }, (_, i) => [2, 5 + (i % 9), 6, 3].slice(0, 2 + (i % 3))) };
const labels = ['the fox', 'a'];

const pixels = (side: number, shift: number) => ({
  data: Uint8ClampedArray.from({ length: 4 * side * side }, (_, i) => (i * 37 + shift) % 256),
  width: side,
  height: side,
});
const images = [pixels(30, 0), pixels(41, 5), pixels(30, 90)];

type Files = Record<string, Uint8Array | string>;
const module = (idx: number, path: string, type: string) => ({ idx, name: String(idx), path, type });
const weightsOf = (name: string, rows: number, columns: number) =>
  writeSafetensors([
    {
      name,
      dtype: 'F32' as const,
      shape: [rows, columns],
      data: Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i)),
    },
  ]);
const tokenizer = tinyModel()['tokenizer.json']!;

/** Kinds of models. */
const kinds: Record<string, () => Files> = {
  'text, with all heads': () => tinyModel(),
  'cross-encoder': () => ({ ...bytesOf(`${fixtures}bert-one-label`), 'tokenizer.json': tokenizer }),
  'zero-shot': () => {
    const files = tinyModel();
    const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
    const id2label = { 0: 'contradiction', 1: 'neutral', 2: 'entailment' };
    return { ...files, 'config.json': json({ ...config, id2label }) };
  },
  'without a tokenizer, with layers after the pooling': () => bytesOf(`${fixtures}sentence`),
  'with prompts, in a subfolder': () => ({
    ...Object.fromEntries(Object.entries(tinyModel()).map(([name, file]) => [`0_Transformer/${name}`, file])),
    'modules.json': json([
      module(0, '0_Transformer', 'sentence_transformers.models.Transformer'),
      module(1, '1_Pooling', 'sentence_transformers.models.Pooling'),
    ]),
    '1_Pooling/config.json': json({
      word_embedding_dimension: 24,
      pooling_mode_mean_tokens: true,
      include_prompt: false,
    }),
    'config_sentence_transformers.json': json({ prompts: { query: 'the ', document: 'a ' } }),
  }),
  SPLADE: () => ({
    ...tinyModel('distilbert'),
    'modules.json': json([
      module(0, '', 'sentence_transformers.sparse_encoder.models.MLMTransformer.MLMTransformer'),
      module(1, '1_SpladePooling', 'sentence_transformers.sparse_encoder.models.SpladePooling'),
    ]),
    '1_SpladePooling/config.json': json({ pooling_strategy: 'max', activation_function: 'relu' }),
  }),
  ColBERT: () => ({
    ...tinyModel(),
    'modules.json': json([
      module(0, '', 'sentence_transformers.models.Transformer'),
      module(1, '1_Dense', 'pylate.models.Dense.Dense'),
    ]),
    '1_Dense/config.json': json({ in_features: 24, out_features: 8, bias: false }),
    '1_Dense/model.safetensors': weightsOf('linear.weight', 8, 24),
    'config_sentence_transformers.json': json({ query_length: 12, query_prefix: 'x', document_prefix: 'y' }),
  }),
  'static embeddings': () => ({
    'config.json': json({ model_type: 'model2vec', hidden_dim: 16, normalize: true }),
    'model.safetensors': weightsOf('embeddings', 24, 16),
    'tokenizer.json': tokenizer,
  }),
  GLiNER: () => bytesOf(`${fixtures}gliner`),
  CLIP: () => tinyClip(),
  SigLIP: () => bytesOf(`${fixtures}siglip`),
  'image classifier': () => bytesOf(`${fixtures}dinov2-labels`),
};

type Property = 'config' | 'dimensions' | 'workers' | 'device' | 'disposed' | 'dispose' | typeof Symbol.dispose;
type Method = Exclude<keyof PretrainedModel, Property>;
/** The options of a method, which its last parameter takes. */
type OptionsOf<M extends Method> = M extends 'decode' | 'loadHead'
  ? never
  : NonNullable<Parameters<PretrainedModel[M]>[M extends 'predict' | 'scoreSpans' ? 2 : 1]>;

interface Example {
  /** Arguments before the options. */
  args: unknown[][];
  /** Values of each option, for the first arguments. */
  options: Record<string, unknown[]>;
}

const call = {
  signal: [new AbortController().signal, AbortSignal.abort(new Error('enough'))],
  onProgress: [() => {}],
};
const input = {
  ...call,
  textPairs: ['a fox', few, many, ['a', 'fox', '']],
  truncation: [true, false],
  maxLength: [4, 1, 40, 41],
};
const edits = [
  [{ site: 'layers.*.weights', heads: [0], scale: 0 }],
  [{ site: 'layers.1.output', texts: [1], positions: [0], set: 'mean' }],
  [{ site: 'layers.0.queries', add: [0.5] }],
  [{ site: 'layers.0.quries', scale: 0 }],
];
const headMask = [
  [
    [1, 0, 1],
    [1, 1, 1],
    [0, 1, 0.5],
  ],
  [[1]],
];
const task = ['query', 'document'];
const sites = {
  task,
  read: [['layers.*.queries'], ['embeddings', 'output', 'layers.0.keys'], ['layers.9.keys']],
  edit: edits,
};
const flags = [true, false];
const texts = [[few], [many], ['a fox'], [[]], [ids]];
const embed = {
  args: texts,
  options: {
    ...input,
    headMask,
    edit: edits,
    pooling: ['cls', ['mean', 'max'], 'sum'],
    normalize: flags,
    dimensions: [5, 1000],
    prompt: ['the quick '],
    promptName: ['query', 'nonsense'],
    task,
    output: ['float32', 'int8', 'binary'],
  },
};

const examples: { [M in Method]: Example & { options: Record<keyof OptionsOf<M>, unknown[]> } } = {
  encode: {
    args: texts,
    options: {
      ...input,
      ...sites,
      headMask,
      outputAttentions: flags,
      outputHiddenStates: flags,
      outputProjections: flags,
    },
  },
  embed,
  embedQuery: embed,
  embedDocument: embed,
  tokenize: {
    args: texts,
    options: {
      signal: call.signal,
      textPairs: input.textPairs,
      truncation: input.truncation,
      maxLength: input.maxLength,
      task,
    },
  },
  predict: {
    args: (['sequence-classification', 'token-classification', 'question-answering', 'fill-mask'] as const).flatMap(
      (head) => texts.map(([given]) => [head, given]),
    ),
    options: { ...input, ...sites, headMask, prompt: ['the quick '], promptName: ['query', 'nonsense'] },
  },
  embedSparse: { args: texts, options: { ...input, edit: edits, headMask, promptName: ['query', 'document'] } },
  embedTokens: {
    args: texts,
    options: {
      ...call,
      truncation: flags,
      maxLength: [4, 41],
      headMask,
      edit: edits,
      promptName: ['query', 'document'],
    },
  },
  scoreSpans: { args: [few, many, 'a fox', []].map((given) => [given, labels]), options: call },
  embedImages: {
    args: [[images], [images[0]], [[]], [images.slice(0, 1)]],
    options: { ...call, edit: edits, normalize: flags },
  },
  encodeImage: {
    args: [[images], [images[0]], [[]]],
    options: { ...call, ...sites, outputAttentions: flags, outputHiddenStates: flags },
  },
  loadHead: { args: [[new Uint8Array(3)], ['head']], options: {} },
  decode: { args: [[[9, 10]], [[]], [[1000000]]], options: {} },
};

type Api = typeof api;
/** The functions whose first parameter is a model. */
type Task = {
  [K in keyof Api]: Api[K] extends (model: infer M, ...rest: never[]) => unknown
    ? unknown extends M
      ? never
      : PretrainedModel extends M
        ? K
        : never
    : never;
}[keyof Api];

async function collected(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const all = [];
  for await (const batch of stream) all.push(batch);
  return all;
}
const tasks: Record<Task, (model: PretrainedModel) => Promise<unknown>> = {
  answerQuestion: (model) => api.answerQuestion(model, 'the fox', 'the quick brown fox '.repeat(9), { topK: 3 }),
  classify: (model) => api.classify(model, many, { topK: 2, edit: edits[0] as never }),
  classifyImages: (model) => api.classifyImages(model, images, { topK: 2 }),
  classifyTokens: (model) => api.classifyTokens(model, many, { aggregation: 'simple' } as object),
  embedLong: (model) => api.embedLong(model, ['the quick brown fox. '.repeat(20), 'a'], { maxTokens: 12 }),
  embedStream: (model) => collected(api.embedStream(model, many, { batchSize: 7, role: 'query', output: 'int8' })),
  encodeStream: (model) => collected(api.encodeStream(model, many, { batchSize: 7, outputProjections: true })),
  extractEntities: (model) => api.extractEntities(model, ['Ada lives in London.', ...many], labels, { threshold: 0.2 }),
  fillMask: (model) =>
    api.fillMask(
      model,
      many.filter((text) => text.includes('[MASK]')),
    ),
  rerank: (model) => api.rerank(model, 'the fox', many, { activation: 'sigmoid' }),
  splitPassages: (model) => api.splitPassages(model, 'the quick brown fox. '.repeat(20), { maxTokens: 12 }),
  vocabularyCoverage: (model) => api.vocabularyCoverage(model, 'the quick brown fox'),
  zeroShotClassify: (model) => api.zeroShotClassify(model, many, labels, { multiLabel: true }),
};

/** A class whose instances callers might pass by mistake, and which cannot be sent to a worker. */
class Other {}
const mistakes = (): unknown[] => [
  ...[null, Number.NaN, -1, 2.5, 3n, true, 'nonsense', [], {}, new Other(), new Date(0), new Map()],
  ...[() => 1, Symbol('x'), Promise.resolve(few).finally(() => {}), new Proxy([], {}), [() => 1], ['a', Symbol('x')]],
  ...[[new Other()], { inputIds: [[() => 1]] }, { inputIds: [[5, 10 ** 6]] }, { inputIds: [[5], [6, -1]] }],
  ...[[...many, 'fox '.repeat(100)], { site: 'output', scale: () => 1 }, [{ site: 'output', scale: new Other() }]],
];

type Call = (model: PretrainedModel) => Promise<unknown>;
const invoke = (method: string, args: unknown[]): Call => (model) => (model[method as Method] as (...args: unknown[]) => Promise<unknown>)(...args); // biome-ignore format: one line

function* callsOf(method: Method): Generator<[what: string, call: Call]> {
  const { args, options } = examples[method];
  for (const [i, given] of args.entries()) yield [`arguments ${i}`, invoke(method, given)];
  for (const [name, values] of Object.entries(options))
    for (const [i, value] of values.entries())
      for (const given of args.slice(0, 2)) yield [`${name} ${i}`, invoke(method, [...given, { [name]: value }])];
  const first = Object.entries(options).filter(([name]) => !['textPairs', 'edit', 'promptName'].includes(name));
  const all = Object.fromEntries(first.map(([name, [value]]) => [name, value]));
  for (const given of args) yield ['all options', invoke(method, [...given, all])];
}

function* mistakenCallsOf(method: Method): Generator<[what: string, call: Call]> {
  const { args, options } = examples[method];
  const first = args[0]!;
  for (const [i, wrong] of mistakes().entries()) {
    for (let at = 0; at < first.length; at++)
      yield [`argument ${at}, mistake ${i}`, invoke(method, Object.assign([...first], { [at]: wrong }))];
    if (method === 'decode') continue;
    yield [`options, mistake ${i}`, invoke(method, [...first, wrong])];
    for (const name of [...Object.keys(options), 'optoins'])
      yield [`${name}, mistake ${i}`, invoke(method, [...first, { [name]: wrong }])];
  }
  yield ['truncation', invoke(method, [[...many, 'x '.repeat(60), ...many, 'a '.repeat(50)], { truncation: false }])];
}

test('the table has the methods of the declaration', () => {
  const path = new URL('../../../web/src/models/model.ts', import.meta.url);
  const source = ts.createSourceFile('model.ts', readFileSync(path, 'utf8'), ts.ScriptTarget.Latest);
  const declared = source.statements
    .filter((node) => ts.isInterfaceDeclaration(node) && node.name.text === 'PretrainedModel')
    .flatMap((node) => [...(node as ts.InterfaceDeclaration).members])
    .filter((member) => ts.isMethodSignature(member) && ts.isIdentifier(member.name))
    .map((member) => (member.name as ts.Identifier).text)
    .filter((name) => name !== 'dispose');
  expect(Object.keys(examples).sort()).toEqual(declared.sort());
});

const placements = { worker: { worker: true }, pool: { workers: 2 } };

describe.each(Object.keys(kinds))('%s', (kind) => {
  let here: PretrainedModel;
  const there: Record<string, PretrainedModel> = {};
  beforeAll(async () => {
    const files = kinds[kind]!();
    here = await heed.fromPretrained(files);
    for (const [name, options] of Object.entries(placements)) there[name] = await heed.fromPretrained(files, options);
  });
  afterAll(() => {
    for (const model of [here, ...Object.values(there)]) model.dispose();
  });

  const expectSame = async (calls: Iterable<[what: string, call: Call]>) => {
    const classes: object[] = [];
    for (const [what, call] of calls) {
      const expected = await outcomeOf(() => call(here), classes);
      for (const [name, model] of Object.entries(there))
        expect(await outcomeOf(() => call(model), classes), `${what} in a ${name}`).toBe(expected);
    }
  };

  test('says the same of itself', () => {
    for (const model of Object.values(there)) expect(model.config).toEqual(here.config);
  });
  test.each(Object.keys(examples) as Method[])('%s', (method) => expectSame(callsOf(method)));
  test('the tasks', () => expectSame(Object.entries(tasks)));
  if (['text, with all heads', 'GLiNER', 'CLIP'].includes(kind))
    test.each(Object.keys(examples) as Method[])('%s, with mistakes', (method) => expectSame(mistakenCallsOf(method)));
});

describe('errors of callbacks and signals', () => {
  test.each(Object.values(placements))('are rejected with as they are: %o', async (options) => {
    const kindsOf = { scoreSpans: 'GLiNER', embedImages: 'CLIP', encodeImage: 'CLIP' };
    for (const [method, { args, options: own }] of Object.entries(examples)) {
      if (!('onProgress' in own)) continue; // such as `tokenize` and `decode`
      const files = kinds[kindsOf[method as never] ?? 'text, with all heads']!();
      using model = await heed.fromPretrained(files, options);
      for (const given of args.slice(0, 2)) {
        for (const reason of [new Error('own'), new api.HeedError('TOO_LONG', 'texts[0]: own'), 'text', undefined]) {
          const onProgress = () => {
            throw reason;
          };
          const ended = (options: object) =>
            invoke(method, [...given, options])(model).then(
              () => 'a result',
              (error: unknown) => ({ error }),
            );
          const thrown = await ended({ onProgress });
          expect((thrown as { error: unknown }).error, method).toBe(reason);
          const stop = new AbortController();
          const aborted = await ended({ signal: stop.signal, onProgress: () => stop.abort(reason) });
          // The last report may come too late to stop the call.
          if (aborted !== 'a result') expect((aborted as { error: unknown }).error, method).toBe(stop.signal.reason);
        }
      }
      model.dispose();
      const disposed = await invoke(method, args[0]!)(model).catch((error: unknown) => error);
      expect(disposed).toMatchObject({ code: 'DISPOSED', message: 'PretrainedModel: used after dispose()' });
    }
  });
});
