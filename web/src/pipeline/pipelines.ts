/** The functions of `pipeline`: they translate arguments, options and results, so that a page of transformers.js can switch by changing the import. */
import type { FromPretrainedOptions, Heed, LoadOptions, ModelSource } from '../api/index.js';
import { describe, HeedError, invalid } from '../base/error.js';
import {
  callback,
  flag,
  knownNames,
  listOfTexts,
  oneOf,
  optional,
  plainOptions,
  requireKnown,
} from '../base/options.js';
import { dispose } from '../base/platform.js';
import { Tensor } from '../base/tensor.js';
import { type LoadProgress, normalized, type PretrainedModel, quantized } from '../models/index.js';
import { answerQuestion, classify, classifyTokens, type Filling, fillMask, zeroShotClassify } from '../tasks/index.js';
import { imageClassification, imageFeatureExtraction } from './images.js';
import { type PipelineData, type PipelineTensor, pipelineTensor } from './tensor.js';
import type {
  FeatureExtractionOptions,
  Pipeline,
  PipelineOptions,
  PipelineProgress,
  Pipelines,
  PipelineTask,
  Texts,
} from './types.js';

// Each maker returns the function of a task over a model. TypeScript cannot infer that the results match the options.
const makers = {
  'feature-extraction': featureExtraction,
  'text-classification': textClassification,
  'sentiment-analysis': textClassification,
  'token-classification': tokenClassification,
  ner: tokenClassification,
  'fill-mask': (model: PretrainedModel) => async (texts: Texts, options?: object) => {
    const all = await fillMask<Filling[] | Filling[][]>(model, texts, renamed('fill-mask', ['top_k'], options));
    // `word` lacks the space before a word, which byte-level tokens have.
    const named = async ({ score, token, sequence }: Filling) => {
      const token_str = await model.decode([token]);
      return { score, token, token_str, sequence };
    };
    const ofMask = (list: Filling[]) => Promise.all(list.map(named));
    const ofText = (lists: Filling[] | Filling[][]): Promise<object[]> =>
      Array.isArray(lists[0]) ? Promise.all((lists as Filling[][]).map(ofMask)) : ofMask(lists as Filling[]);
    return single(texts, await Promise.all(all.map(ofText)));
  },
  'question-answering': (model: PretrainedModel) => async (question: Texts, context: Texts, options?: object) => {
    const call = renamed('question-answering', ['top_k'], options);
    const questions = listOfTexts(question, 'question');
    const contexts = typeof context === 'string' ? questions.map(() => context) : listOfTexts(context, 'context');
    if (contexts.length !== questions.length)
      throw invalid('context', `one context, or ${questions.length}, one per question`, `${contexts.length}`);
    const results: unknown[] = [];
    for (const [n, each] of questions.entries()) {
      const answers = await answerQuestion(model, each, contexts[n]!, call);
      results.push((call.topK ?? 1) === 1 ? (answers[0] ?? { answer: '', score: 0, start: 0, end: 0 }) : answers);
    }
    return single(question, results);
  },
  'zero-shot-classification': zeroShotClassification,
  'image-classification': imageClassification,
  'image-feature-extraction': imageFeatureExtraction,
};

function zeroShotClassification(model: PretrainedModel) {
  const names = ['hypothesis_template', 'multi_label'] as const;
  return async (texts: Texts, labels: Texts, options?: object) => {
    const all = await zeroShotClassify(model, texts, labels, renamed('zero-shot-classification', names, options));
    const sequences = typeof texts === 'string' ? [texts] : texts;
    const results = all.map((list, n) => ({
      sequence: sequences[n]!,
      labels: list.map(({ label }) => label),
      scores: list.map(({ score }) => score),
    }));
    return single(texts, results);
  };
}

/** transformers.js's options whose names differ in heed. */
const OURS = {
  top_k: 'topK',
  hypothesis_template: 'hypothesisTemplate',
  multi_label: 'multiLabel',
  ignore_labels: 'ignoreLabels',
  aggregation_strategy: 'aggregation',
} as const;

/** Restores the caller's spelling of an option's name in an error message. */
function asWritten(error: unknown, task: string): unknown {
  if (error instanceof HeedError)
    error.message = error.message.replace(/^\w+\.(\w+)/, (all, name) => {
      const theirs = Object.entries(OURS).find(([, ours]) => ours === name)?.[0];
      return theirs ? `${task}.${theirs}` : all;
    });
  return error;
}

/** Copies options, renaming those in `names` to heed's names. Rejects options that already have heed's names. */
function renamed(task: string, names: readonly (keyof typeof OURS)[], options?: object): Record<string, never> {
  const call = plainOptions(task, options) as Record<string, never>;
  for (const theirs of names) {
    const ours = OURS[theirs];
    const written = Object.keys(call).find((name) => name !== theirs && plain(name) === plain(theirs));
    if (written !== undefined) requireKnown(task, [written], [theirs]);
    if (ours in call) requireKnown(task, [ours], [theirs]);
    if (theirs in call) call[ours] = call[theirs]!;
    delete call[theirs];
  }
  return call;
}

/** Removes the differences in spelling between topk, topK and top_k. */
const plain = (name: string) => name.replaceAll('_', '').toLowerCase();

/** @internal `pipeline` on the module that `load` loads. */
export async function openPipeline<T extends PipelineTask>(
  load: (options?: LoadOptions) => Promise<Heed>,
  task: T,
  folder?: ModelSource | null,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  const source = folder ?? undefined; // transformers.js's own default is null
  if (typeof task !== 'string' || !Object.hasOwn(makers, task)) {
    const known = Object.keys(makers);
    const expected = typeof task === 'string' ? knownNames(task, known) : `one of ${known.join(', ')}`;
    throw invalid('task', expected, describe(task), 'UNSUPPORTED');
  }
  const { progress_callback: given, device, hub, gpu, dtype, ...others } = plainOptions('pipeline', options);
  const progress = callback<NonNullable<typeof given>>(given, 'pipeline.progress_callback');
  if (progress && 'onProgress' in others)
    throw invalid('pipeline.onProgress', 'undefined together with progress_callback', 'both');
  if (device !== undefined && !['wasm', 'cpu', 'webgpu', 'auto'].includes(device))
    throw invalid('device', "'wasm', 'cpu', 'webgpu' or 'auto'", describe(device), 'UNSUPPORTED');
  const ours = device === 'cpu' ? 'wasm' : device;
  const rest: FromPretrainedOptions = { ...others, ...weightsOf(dtype, ours), device: ours };
  const name = typeof source === 'string' ? source : 'model';
  const heed = await load({ hub, gpu });
  const end = () => heed.dispose(); // disposes of the model, too
  let model: PretrainedModel;
  try {
    const statuses = progress && statusesFor(progress, name);
    model = await heed.fromPretrained(source, statuses ? { ...rest, onProgress: statuses.onProgress } : rest);
    statuses?.end();
    progress?.({ status: 'ready', task, model: name });
  } catch (error) {
    end();
    throw error;
  }
  const run = makers[task](model) as unknown as (...args: unknown[]) => Promise<unknown>;
  const call = ((...args: unknown[]) =>
    run(...args).catch((error) => {
      throw asWritten(error, task);
    })) as unknown as Pipelines[T];
  return Object.assign(call, { task, model, dispose: async () => end(), [dispose]: end }) as Pipeline<T>;
}

/** The types of transformers.js's files, each with the type as which heed runs it. */
const FILES = { int8: 'q8', uint8: 'q8', q4: 'fp32', q4f16: 'fp32', bnb4: 'fp32', fp16: 'fp32' } as const;

/** heed's options for a type of transformers.js. */
function weightsOf(
  dtype: PipelineOptions['dtype'],
  device: PipelineOptions['device'],
): Pick<FromPretrainedOptions, 'dtype' | 'weights'> {
  const isFile = typeof dtype === 'string' && Object.hasOwn(FILES, dtype);
  if (isFile && (dtype !== 'fp16' || (device ?? 'wasm') === 'wasm'))
    return { dtype: FILES[dtype as keyof typeof FILES], weights: `onnx/model_${dtype}.onnx` };
  return dtype === undefined ? {} : { dtype: dtype as FromPretrainedOptions['dtype'] }; // checked by fromPretrained
}

function statusesFor(report: (progress: PipelineProgress) => void, name: string) {
  let current: string | null = null;
  const files: Record<string, { loaded: number; total: number }> = {};
  // Files are downloaded one after the other. A server may not report their sizes.
  const end = () => {
    if (current !== null) report({ status: 'done', name, file: current });
    current = null;
  };
  const onProgress = ({ done, total: all, file: { name: address, done: loaded, total: size } }: LoadProgress) => {
    const file = pathOf(address, name);
    if (file !== current) {
      end();
      current = file;
      report({ status: 'initiate', name, file });
      report({ status: 'download', name, file });
    }
    const percent = (part: number, whole: number) => (whole > 0 ? (100 * part) / whole : 100);
    const total = size ?? loaded;
    report({ status: 'progress', name, file, progress: percent(loaded, total), loaded, total });
    files[file] = { loaded, total };
    const whole = Math.max(all ?? 0, done);
    const progress = percent(done, whole);
    report({ status: 'progress_total', name, progress, loaded: done, total: whole, files: { ...files } });
  };
  return { onProgress, end };
}

/** The path of a file relative to its model's folder, which is how transformers.js names it. */
function pathOf(address: string, source: string): string {
  const plain = address.replace(/[?#].*$/, '').replaceAll('\\', '/');
  const folder = `${source.replaceAll('\\', '/').replace(/\/+$/, '')}/`;
  const inHub = /^.*\/resolve\/[^/]+\/(.+)$/.exec(plain)?.[1];
  if (inHub) return inHub;
  if (plain.startsWith(folder)) return plain.slice(folder.length);
  return /[^/]*_[A-Z][A-Za-z]*\/[^/]+$|[^/]+$/.exec(plain)?.[0] ?? plain;
}

const POOLINGS = { mean: 'mean', cls: 'cls', first_token: 'cls', last_token: 'last', eos: 'last', max: 'max' } as const;

const precisions = optional(oneOf(['binary', 'ubinary']), 'binary' as const);

function featureExtraction(model: PretrainedModel) {
  return async (texts: Texts, options?: FeatureExtractionOptions): Promise<PipelineTensor<PipelineData>> => {
    const given = plainOptions('feature-extraction', options);
    const { pooling = 'none', normalize = false, quantize = false, precision, ...call } = given;
    const read = precisions(precision, 'precision');
    const vectors = await featuresOf(model, texts, pooling, normalize, call);
    return flag(quantize, 'quantize') ? signsOf(vectors, read) : pipelineTensor(vectors.data, vectors.shape);
  };
}

async function featuresOf(
  model: PretrainedModel,
  texts: Texts,
  pooling: NonNullable<FeatureExtractionOptions['pooling']>,
  normalize: boolean,
  call: object,
): Promise<Tensor> {
  if (pooling !== 'none') {
    if (typeof pooling !== 'string' || !Object.hasOwn(POOLINGS, pooling))
      throw invalid('pooling', `one of 'none', '${Object.keys(POOLINGS).join("', '")}'`, describe(pooling));
    return model.embed(texts, { ...call, pooling: POOLINGS[pooling], normalize });
  }
  const { lastHiddenState } = await model.encode(texts, call);
  const { data, shape } = lastHiddenState;
  if (flag(normalize, 'normalize'))
    for (let at = 0; at < data.length; at += shape[2]!) data.set(normalized(data.subarray(at, at + shape[2]!)), at);
  return lastHiddenState;
}

/** Packs the signs of the entries into bits. */
function signsOf({ data, shape }: Tensor, precision: 'binary' | 'ubinary'): PipelineTensor<Int8Array | Uint8Array> {
  const width = shape.at(-1)!;
  if (width % 8 !== 0) throw invalid('quantize', 'vectors whose width is a multiple of 8', `${width}`, 'UNSUPPORTED');
  const { data: bytes } = quantized(new Tensor(data, [data.length / width, width]), 'binary');
  const dims = [...shape.slice(0, -1), width / 8];
  return precision === 'ubinary'
    ? pipelineTensor(bytes, dims)
    : pipelineTensor(
        Int8Array.from(bytes, (byte) => byte - 128),
        dims,
      );
}

function textClassification(model: PretrainedModel) {
  return async (texts: Texts, options?: object) => {
    const { topK = 1, ...call } = renamed('text-classification', ['top_k'], options);
    const all = await classify(model, texts, { ...call, ...(topK !== null && { topK }) });
    // transformers.js returns one label per text as a flat list.
    return topK === 1 ? all.flat() : single(texts, all);
  };
}

function tokenClassification(model: PretrainedModel) {
  const names = ['ignore_labels', 'aggregation_strategy'] as const;
  return async (texts: Texts, options?: object) => {
    const call = renamed('token-classification', names, options);
    const all = await classifyTokens(model, texts, call);
    const named = all.map((list) =>
      list.map(({ label, score, index, word, start, end }) =>
        (call.aggregation ?? 'none') === 'none'
          ? { entity: label, score, index, word, start, end }
          : { entity_group: label, score, word, start, end },
      ),
    );
    return single(texts, named);
  };
}

/** The single result for a text, or the list of results for a list of texts. */
function single<R>(texts: Texts, all: R[]): R | R[] {
  return typeof texts === 'string' ? all[0]! : all;
}
