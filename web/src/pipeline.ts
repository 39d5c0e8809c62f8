/** heed's models with the conventions of transformers.js: names, arguments and shapes of results, so that a page can switch by changing the import. */
import { describe, HeedError, invalid } from './error.js';
import type { FromPretrainedOptions } from './from-pretrained.js';
import type { ModelSource } from './io/source.js';
import type { ImageCallOptions } from './models/image-encoder.js';
import type { LoadProgress } from './models/load.js';
import type { PretrainedModel } from './models/model.js';
import { normalized, quantized } from './models/quantized.js';
import { listOfTexts } from './models/tasks/task.js';
import {
  type Aggregation,
  answerQuestion,
  classify,
  classifyTokens,
  type Filling,
  fillMask,
  type TaskOptions,
  zeroShotClassify,
} from './models/tasks.js';
import { callback, flag, nearest, oneOf, optional, plainOptions, requireKnown } from './options.js';
import { imageClassification, imageFeatureExtraction, type PipelineImages } from './pipeline-images.js';
import { type PipelineData, type PipelineTensor, pipelineTensor } from './pipeline-tensor.js';
import { dispose } from './platform.js';
import type { Heed, LoadOptions } from './runtime.js';
import { Tensor } from './tensor.js';

export type { PipelineImage, PipelineImages } from './pipeline-images.js';
export type { PipelineData, PipelineSlice, PipelineTensor } from './pipeline-tensor.js';

type Texts = string | readonly string[];

/** Options of 'feature-extraction'. */
export interface FeatureExtractionOptions extends TaskOptions {
  /** How the vectors of a text's tokens become one; 'none' (the default) returns them all. */
  pooling?: 'none' | 'mean' | 'cls' | 'first_token' | 'last_token' | 'eos' | 'max';
  /** Scales vectors to length 1. Default false. */
  normalize?: boolean;
  /** Returns the signs of the numbers as bits, 8 to a byte, of widths that are multiples of 8. Default false. */
  quantize?: boolean;
  /** The bytes of `quantize`: 'binary' (default), from -128 to 127, or 'ubinary', from 0 to 255, as in sentence-transformers. */
  precision?: 'binary' | 'ubinary';
}

/** A label of 'text-classification' and 'image-classification'. */
export interface ClassificationScore {
  label: string;
  score: number;
}

/** A token, or with aggregation a group of tokens, of 'token-classification'. */
export interface TokenEntity {
  /** The label of a token, such as 'B-PER'. */
  entity?: string;
  /** The label of a group, such as 'PER'. */
  entity_group?: string;
  score: number;
  /** Index of the token in its text. */
  index?: number;
  word: string;
  /** UTF-16 units of the text, [start, end). */
  start: number;
  end: number;
}

/** A word of 'fill-mask'. */
export interface MaskFilling {
  score: number;
  /** Its id. */
  token: number;
  token_str: string;
  /** The text with the word in place of the mask. */
  sequence: string;
}

/** An answer of 'question-answering'. */
export interface QuestionAnswer {
  answer: string;
  score: number;
  /** UTF-16 units of the context, [start, end). */
  start: number;
  end: number;
}

/** A result of 'zero-shot-classification': the labels, best first, and their scores. */
export interface ZeroShotResult {
  sequence: string;
  labels: string[];
  scores: number[];
}

/** `One` if the number K of results is 1, else `Many`. */
type Top<K, One, Many> = number extends K ? One | Many : K extends 1 ? One : Many;

/** One text gives one result, a list of texts a list. */
type PerText<T extends Texts, R> = T extends string ? R : R[];

/** The function of each task. */
export interface Pipelines {
  /** -> [texts, tokens, width], or [texts, width] with pooling. */
  'feature-extraction': <Q extends boolean = false>(
    texts: Texts,
    options?: FeatureExtractionOptions & { quantize?: Q },
  ) => Promise<Q extends true ? PipelineTensor<Int8Array | Uint8Array> : PipelineTensor>;
  /** Labels, best first; `top_k` (default 1) limits them, null: all. With one label per text, a flat list. */
  'text-classification': <T extends Texts, K extends number | null = 1>(
    texts: T,
    options?: TaskOptions & { top_k?: K },
  ) => Promise<Top<K, ClassificationScore[], PerText<T, ClassificationScore[]>>>;
  /** Labelled tokens, without those of `ignore_labels` (default ['O']), or groups of them. */
  'token-classification': <T extends Texts>(
    texts: T,
    options?: TaskOptions & { ignore_labels?: readonly string[]; aggregation_strategy?: Aggregation },
  ) => Promise<PerText<T, TokenEntity[]>>;
  /** The `top_k` (default 5) most likely words in place of each text's mask; a list of them for each mask of a text with several, whose type is then `MaskFilling[][]`. */
  'fill-mask': <T extends Texts, M extends MaskFilling[] | MaskFilling[][] = MaskFilling[]>(
    texts: T,
    options?: TaskOptions & { top_k?: number },
  ) => Promise<PerText<T, M>>;
  /** The answer in the context; several in a list with a `top_k` other than 1. Of a list of questions, about one context or as many, a list of these. */
  'question-answering': <T extends Texts, K extends number = 1>(
    question: T,
    context: Texts,
    options?: TaskOptions & { top_k?: K },
  ) => Promise<PerText<T, Top<K, QuestionAnswer, QuestionAnswer[]>>>;
  /** Labels by natural language inference; `multi_label` (default false): any number of them may hold. */
  'zero-shot-classification': <T extends Texts>(
    texts: T,
    labels: Texts,
    options?: TaskOptions & { hypothesis_template?: string; multi_label?: boolean },
  ) => Promise<PerText<T, ZeroShotResult>>;
  /** Labels, best first; `top_k` (default 5) limits them, null: all. Of a list of images a list of these. */
  'image-classification': <T extends PipelineImages>(
    images: T,
    options?: ImageCallOptions & { top_k?: number | null },
  ) => Promise<T extends readonly unknown[] ? ClassificationScore[][] : ClassificationScore[]>;
  /** -> [images, rows, width], with `pool` the pooled rows [images, width]; of CLIP and SigLIP the vectors [images, width]. */
  'image-feature-extraction': (
    images: PipelineImages,
    options?: ImageCallOptions & { pool?: boolean },
  ) => Promise<PipelineTensor>;
  'sentiment-analysis': Pipelines['text-classification'];
  ner: Pipelines['token-classification'];
}

/** The tasks that `pipeline` knows. */
export type PipelineTask = keyof Pipelines;

/** The function of a task, with its model. */
export type Pipeline<T extends PipelineTask> = Pipelines[T] & {
  readonly task: T;
  readonly model: PretrainedModel;
  /** Frees the model; calls afterwards reject with `DISPOSED`. */
  dispose(): Promise<void>;
  [Symbol.dispose](): void;
};

/** Progress in the statuses of transformers.js and their order: each file is initiated, downloaded and done; then the pipeline is ready. */
export type PipelineProgress =
  | { status: 'initiate' | 'download' | 'done'; name: string; file: string }
  | { status: 'progress'; name: string; file: string; progress: number; loaded: number; total: number }
  | {
      /** Of all files together. */
      status: 'progress_total';
      name: string;
      progress: number;
      loaded: number;
      total: number;
      files: Record<string, { loaded: number; total: number }>;
    }
  | { status: 'ready'; task: string; model: string };

/** Options of `pipeline`: those of `fromPretrained`, and some of transformers.js. */
export interface PipelineOptions
  extends Omit<FromPretrainedOptions, 'onProgress' | 'device'>,
    Pick<LoadOptions, 'hub' | 'gpu'> {
  /** Called with the progress of loading. */
  progress_callback?: (progress: PipelineProgress) => void;
  /** As of `fromPretrained`; 'cpu' is 'wasm'. */
  device?: FromPretrainedOptions['device'] | 'cpu';
}

// Each returns the function of a task over a model; TypeScript cannot see that results fit the options that they follow from.
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

/** The options of transformers.js that have other names in heed. */
const OURS = {
  top_k: 'topK',
  hypothesis_template: 'hypothesisTemplate',
  multi_label: 'multiLabel',
  ignore_labels: 'ignoreLabels',
  aggregation_strategy: 'aggregation',
} as const;

/** An error with the name of an option as the caller has written it. */
function asWritten(error: unknown, task: string): unknown {
  if (error instanceof HeedError)
    error.message = error.message.replace(/^\w+\.(\w+)/, (all, name) => {
      const theirs = Object.entries(OURS).find(([, ours]) => ours === name)?.[0];
      return theirs ? `${task}.${theirs}` : all;
    });
  return error;
}

/** A copy of options in which those that `names` lists have heed's names; options that already have these are refused. */
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

/** topk, topK and top_k are the same but for their spelling. */
const plain = (name: string) => name.replaceAll('_', '').toLowerCase();

/** @internal `pipeline` on the module that `load` loads. */
export async function makePipeline<T extends PipelineTask>(
  load: (options?: LoadOptions) => Promise<Heed>,
  task: T,
  folder?: ModelSource | null,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  const source = folder ?? undefined; // transformers.js's own default is null
  if (typeof task !== 'string' || !Object.hasOwn(makers, task)) {
    const known = Object.keys(makers);
    const expected = `${typeof task === 'string' ? nearest(task, known) : 'a string'} (all: ${known.join(', ')})`;
    throw invalid('task', expected, describe(task), 'UNSUPPORTED');
  }
  const { progress_callback: given, device, hub, gpu, ...others } = plainOptions('pipeline', options);
  const progress = callback<NonNullable<typeof given>>(given, 'pipeline.progress_callback');
  if (progress && 'onProgress' in others)
    throw invalid('pipeline.onProgress', 'none together with progress_callback', 'one');
  if (device !== undefined && !['wasm', 'cpu', 'webgpu', 'auto'].includes(device))
    throw invalid('device', "'wasm', 'cpu', 'webgpu' or 'auto'", describe(device), 'UNSUPPORTED');
  const rest = { ...others, device: device === 'cpu' ? ('wasm' as const) : device };
  const name = typeof source === 'string' ? source : 'model';
  const heed = await load({ hub, gpu });
  const end = () => heed.dispose(); // and with it the model
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

function statusesFor(report: (progress: PipelineProgress) => void, name: string) {
  let current: string | null = null;
  const files: Record<string, { loaded: number; total: number }> = {};
  // Files follow one another; a server may not report their sizes.
  const end = () => {
    if (current !== null) report({ status: 'done', name, file: current });
    current = null;
  };
  const onProgress = ({ file: address, fileLoaded, fileTotal, loaded, total: all }: LoadProgress) => {
    const file = pathOf(address, name);
    if (file !== current) {
      end();
      current = file;
      report({ status: 'initiate', name, file });
      report({ status: 'download', name, file });
    }
    const total = fileTotal ?? fileLoaded;
    report({
      status: 'progress',
      name,
      file,
      progress: total > 0 ? (100 * fileLoaded) / total : 100,
      loaded: fileLoaded,
      total,
    });
    files[file] = { loaded: fileLoaded, total };
    const whole = Math.max(all ?? 0, loaded);
    const progress = whole > 0 ? (100 * loaded) / whole : 100;
    report({ status: 'progress_total', name, progress, loaded, total: whole, files: { ...files } });
  };
  return { onProgress, end };
}

/** The path of a file below the folder of its model, as transformers.js names it. */
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

/** The signs of the numbers as bits. */
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
    // As in transformers.js, one label per text comes in a flat list.
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

/** The result of one text, or the results of a list. */
function single<R>(texts: Texts, all: R[]): R | R[] {
  return typeof texts === 'string' ? all[0]! : all;
}
