/** heed's models with the conventions of transformers.js: names, arguments and shapes of results, so that a page can switch by changing the import. */
import { describe, invalid } from './error.js';
import type { FromPretrainedOptions } from './from-pretrained.js';
import type { ModelSource } from './io/source.js';
import type { LoadProgress } from './models/load.js';
import type { PretrainedModel } from './models/model.js';
import { normalized } from './models/quantized.js';
import {
  type Aggregation,
  answerQuestion,
  classify,
  classifyTokens,
  fillMask,
  type TaskOptions,
  zeroShotClassify,
} from './models/tasks.js';
import { callback, flag, nearest, plainOptions, requireKnown } from './options.js';
import { dispose } from './platform.js';
import type { Heed } from './runtime.js';
import type { NestedNumbers, Tensor } from './tensor.js';

/** A tensor as in transformers.js. */
export interface PipelineTensor {
  readonly type: 'float32';
  /** Row-major. */
  readonly data: Float32Array;
  /** The shape. */
  readonly dims: number[];
  /** Number of values. */
  readonly size: number;
  /** The values in nested arrays. */
  tolist(): NestedNumbers;
}

type Texts = string | readonly string[];

/** Options of 'feature-extraction'. */
export interface FeatureExtractionOptions extends TaskOptions {
  /** How the vectors of a text's tokens become one; 'none' (the default) returns them all. */
  pooling?: 'none' | 'mean' | 'cls' | 'first_token' | 'last_token' | 'eos' | 'max';
  /** Scales vectors to length 1. Default false. */
  normalize?: boolean;
}

/** A label of 'text-classification'. */
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
  'feature-extraction': (texts: Texts, options?: FeatureExtractionOptions) => Promise<PipelineTensor>;
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
  /** The `top_k` (default 5) most likely words in place of each text's mask. */
  'fill-mask': <T extends Texts>(
    texts: T,
    options?: TaskOptions & { top_k?: number },
  ) => Promise<PerText<T, MaskFilling[]>>;
  /** The answer in the context; several in a list with a `top_k` other than 1. */
  'question-answering': <K extends number = 1>(
    question: string,
    context: string,
    options?: TaskOptions & { top_k?: K },
  ) => Promise<Top<K, QuestionAnswer, QuestionAnswer[]>>;
  /** Labels by natural language inference; `multi_label` (default false): any number of them may hold. */
  'zero-shot-classification': <T extends Texts>(
    texts: T,
    labels: Texts,
    options?: TaskOptions & { hypothesis_template?: string; multi_label?: boolean },
  ) => Promise<PerText<T, ZeroShotResult>>;
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
  | { status: 'ready'; task: string; model: string };

/** Options of `pipeline`: those of `fromPretrained`, and some of transformers.js. */
export interface PipelineOptions extends Omit<FromPretrainedOptions, 'onProgress'> {
  /** Called with the progress of loading. */
  progress_callback?: (progress: PipelineProgress) => void;
  /** heed runs on the processor: 'wasm', 'cpu' and 'auto' are the same. */
  device?: 'wasm' | 'cpu' | 'auto';
}

// Each returns the function of a task over a model; TypeScript cannot see that results fit the options that they follow from.
const makers = {
  'feature-extraction': featureExtraction,
  'text-classification': textClassification,
  'sentiment-analysis': textClassification,
  'token-classification': tokenClassification,
  ner: tokenClassification,
  'fill-mask': (model: PretrainedModel) => async (texts: Texts, options?: object) => {
    const all = await fillMask(model, texts, renamed('fill-mask', { top_k: 'topK' }, options));
    return single(
      texts,
      all.map((list) => list.map(({ score, token, word, sequence }) => ({ score, token, token_str: word, sequence }))),
    );
  },
  'question-answering': (model: PretrainedModel) => async (question: string, context: string, options?: object) => {
    const call = renamed('question-answering', { top_k: 'topK' }, options);
    const answers = await answerQuestion(model, question, context, call);
    return (call.topK ?? 1) === 1 ? (answers[0] ?? { answer: '', score: 0, start: 0, end: 0 }) : answers;
  },
  'zero-shot-classification': zeroShotClassification,
};

function zeroShotClassification(model: PretrainedModel) {
  const names = { hypothesis_template: 'hypothesisTemplate', multi_label: 'multiLabel' };
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

/** A copy of options in which those that `names` lists have heed's names; options that already have these are refused. */
function renamed(task: string, names: Record<string, string>, options?: object): Record<string, never> {
  const call = plainOptions(task, options) as Record<string, never>;
  for (const [theirs, ours] of Object.entries(names)) {
    if (ours in call) requireKnown(task, [ours], [theirs]);
    if (theirs in call) call[ours] = call[theirs]!;
    delete call[theirs];
  }
  return call;
}

/** @internal `pipeline` on the module that `load` loads. */
export async function makePipeline<T extends PipelineTask>(
  load: () => Promise<Heed>,
  task: T,
  source?: ModelSource,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  if (typeof task !== 'string' || !Object.hasOwn(makers, task)) {
    const known = Object.keys(makers);
    const expected = `${typeof task === 'string' ? nearest(task, known) : 'a string'} (all: ${known.join(', ')})`;
    throw invalid('task', expected, describe(task), 'UNSUPPORTED');
  }
  const { progress_callback: given, device, ...rest } = plainOptions('pipeline', options);
  const progress = callback<NonNullable<typeof given>>(given, 'pipeline.progress_callback');
  if (progress && 'onProgress' in rest)
    throw invalid('pipeline.onProgress', 'none together with progress_callback', 'one');
  if (device !== undefined && !['wasm', 'cpu', 'auto'].includes(device))
    throw invalid('device', "'wasm', 'cpu' or 'auto'", describe(device), 'UNSUPPORTED', {
      hint: 'heed runs on the CPU only',
    });
  const name = typeof source === 'string' ? source : 'model';
  const heed = await load();
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
  const call = makers[task](model) as unknown as Pipelines[T];
  return Object.assign(call, { task, model, dispose: async () => end(), [dispose]: end }) as Pipeline<T>;
}

function statusesFor(report: (progress: PipelineProgress) => void, name: string) {
  let current: string | null = null;
  // Files follow one another; a server may not report their sizes.
  const end = () => {
    if (current !== null) report({ status: 'done', name, file: current });
    current = null;
  };
  const onProgress = ({ file, fileLoaded, fileTotal }: LoadProgress) => {
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
  };
  return { onProgress, end };
}

function pipelineTensor(tensor: Tensor): PipelineTensor {
  const { data, shape } = tensor;
  return { type: 'float32', data, dims: shape, size: data.length, tolist: () => tensor.toArray() };
}

const POOLINGS = { mean: 'mean', cls: 'cls', first_token: 'cls', last_token: 'last', eos: 'last', max: 'max' } as const;

function featureExtraction(model: PretrainedModel): Pipelines['feature-extraction'] {
  return async (texts, options) => {
    const { pooling = 'none', normalize = false, ...call } = plainOptions('feature-extraction', options);
    if (pooling === 'none') {
      const { lastHiddenState } = await model.encode(texts, call);
      const { data, shape } = lastHiddenState;
      if (flag(normalize, 'normalize'))
        for (let at = 0; at < data.length; at += shape[2]!) data.set(normalized(data.subarray(at, at + shape[2]!)), at);
      return pipelineTensor(lastHiddenState);
    }
    if (typeof pooling !== 'string' || !Object.hasOwn(POOLINGS, pooling))
      throw invalid('pooling', `one of 'none', '${Object.keys(POOLINGS).join("', '")}'`, describe(pooling));
    return pipelineTensor(await model.embed(texts, { ...call, pooling: POOLINGS[pooling], normalize }));
  };
}

function textClassification(model: PretrainedModel) {
  return async (texts: Texts, options?: object) => {
    const { topK = 1, ...call } = renamed('text-classification', { top_k: 'topK' }, options);
    const all = await classify(model, texts, { ...call, ...(topK !== null && { topK }) });
    // As in transformers.js, one label per text comes in a flat list.
    return topK === 1 ? all.flat() : single(texts, all);
  };
}

function tokenClassification(model: PretrainedModel) {
  const names = { ignore_labels: 'ignoreLabels', aggregation_strategy: 'aggregation' };
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
