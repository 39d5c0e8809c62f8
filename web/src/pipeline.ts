/**
 * transformers.js's conventions over heed's models: names, arguments and shapes of results as its users know them, so that a page moves over by changing the import.
 */
import { describe, HeedError, invalid } from './error.js';
import type { ModelSource } from './io/source.js';
import type { FromPretrainedOptions } from './models/from-pretrained.js';
import type { LoadProgress } from './models/load.js';
import type { PretrainedModel } from './models/model.js';
import { normalized } from './models/pretrained.js';
import {
  type Aggregation,
  answerQuestion,
  classify,
  classifyTokens,
  fillMask,
  type TaskOptions,
} from './models/tasks.js';
import { callback, flag, nearest, plainOptions } from './options.js';
import { dispose } from './platform.js';
import { load } from './runtime.js';
import type { NestedNumbers, Tensor } from './tensor.js';

/** A tensor as transformers.js has it. */
export interface PipelineTensor {
  readonly type: 'float32';
  readonly data: Float32Array;
  readonly dims: number[];
  readonly size: number;
  tolist(): NestedNumbers;
}

type Texts = string | readonly string[];

export interface FeatureExtractionOptions extends TaskOptions {
  /** 'none' (the default) gives every token's vector. */
  pooling?: 'none' | 'mean' | 'cls' | 'first_token' | 'last_token' | 'eos' | 'max';
  normalize?: boolean;
}

export interface ClassificationScore {
  label: string;
  score: number;
}

export interface TokenEntity {
  entity?: string;
  entity_group?: string;
  score: number;
  index?: number;
  word: string;
  start: number;
  end: number;
}

export interface MaskFilling {
  score: number;
  token: number;
  token_str: string;
  sequence: string;
}

export interface QuestionAnswer {
  answer: string;
  score: number;
  start: number;
  end: number;
}

/** What each task's pipeline is called with and gives. */
export interface Pipelines {
  'feature-extraction': (texts: Texts, options?: FeatureExtractionOptions) => Promise<PipelineTensor>;
  'text-classification': (
    texts: Texts,
    options?: TaskOptions & { top_k?: number | null },
  ) => Promise<ClassificationScore[] | ClassificationScore[][]>;
  'token-classification': (
    texts: Texts,
    options?: TaskOptions & { ignore_labels?: readonly string[]; aggregation_strategy?: Aggregation },
  ) => Promise<TokenEntity[] | TokenEntity[][]>;
  'fill-mask': (texts: Texts, options?: TaskOptions & { top_k?: number }) => Promise<MaskFilling[] | MaskFilling[][]>;
  'question-answering': (
    question: string,
    context: string,
    options?: TaskOptions & { top_k?: number },
  ) => Promise<QuestionAnswer | QuestionAnswer[]>;
  'sentiment-analysis': Pipelines['text-classification'];
  ner: Pipelines['token-classification'];
}

export type PipelineTask = keyof Pipelines;

/** A pipeline is a function with its model and its end. */
export type Pipeline<T extends PipelineTask> = Pipelines[T] & {
  readonly task: T;
  readonly model: PretrainedModel;
  dispose(): Promise<void>;
  [Symbol.dispose](): void;
};

/** transformers.js's statuses, in their order: each file is initiated, downloaded and done; then the pipeline is ready. */
export type PipelineProgress =
  | { status: 'initiate' | 'download' | 'done'; name: string; file: string }
  | { status: 'progress'; name: string; file: string; progress: number; loaded: number; total: number }
  | { status: 'ready'; task: string; model: string };

export interface PipelineOptions extends Omit<FromPretrainedOptions, 'onProgress'> {
  progress_callback?: (progress: PipelineProgress) => void;
  /** heed runs on the processor: 'wasm', 'cpu' and 'auto' are the same. */
  device?: 'wasm' | 'cpu' | 'auto';
}

const makers: { [T in PipelineTask]: (model: PretrainedModel) => Pipelines[T] } = {
  'feature-extraction': featureExtraction,
  'text-classification': textClassification,
  'sentiment-analysis': textClassification,
  'token-classification': tokenClassification,
  ner: tokenClassification,
  'fill-mask': (model) => async (texts, options) => {
    const { top_k: topK, ...call } = plainOptions('fill-mask', options);
    const all = await fillMask(model, texts, { ...call, ...(topK !== undefined && { topK }) });
    return single(
      texts,
      all.map((list) => list.map(({ score, token, word, sequence }) => ({ score, token, token_str: word, sequence }))),
    );
  },
  'question-answering': (model) => async (question, context, options) => {
    const { top_k: topK = 1, ...call } = plainOptions('question-answering', options);
    const answers = await answerQuestion(model, question, context, { ...call, topK });
    return topK === 1 ? (answers[0] ?? { answer: '', score: 0, start: 0, end: 0 }) : answers;
  },
};

/** A task's function over a model; without one, over the model that comes with heed (feature extraction only, as it has no heads). */
export async function pipeline<T extends PipelineTask>(
  task: T,
  source?: ModelSource,
  options?: PipelineOptions,
): Promise<Pipeline<T>> {
  if (typeof task !== 'string' || !Object.hasOwn(makers, task)) {
    const known = Object.keys(makers);
    throw new HeedError(
      'UNSUPPORTED',
      `task: got ${describe(task)}; expected ${typeof task === 'string' ? nearest(task, known) : 'a string'} (all: ${known.join(', ')})`,
    );
  }
  const { progress_callback: given, device, ...rest } = plainOptions('pipeline', options);
  const progress = callback<NonNullable<typeof given>>(given, 'pipeline.progress_callback');
  if (progress && 'onProgress' in rest)
    throw invalid('pipeline.onProgress', 'it beside progress_callback', 'one of the two');
  if (device !== undefined && !['wasm', 'cpu', 'auto'].includes(device))
    throw new HeedError(
      'UNSUPPORTED',
      `device: got ${describe(device)}; expected 'wasm', 'cpu' or 'auto': heed runs on the processor`,
    );
  const name = typeof source === 'string' ? source : 'model';
  const heed = await load();
  const end = () => heed.dispose(); // and with it the model
  let model: PretrainedModel;
  try {
    const statuses = progress && statusesFor(progress, name);
    model = await heed.fromPretrained(source, { ...rest, ...(statuses && { onProgress: statuses.onProgress }) });
    statuses?.end();
    progress?.({ status: 'ready', task, model: name });
  } catch (error) {
    end();
    throw error;
  }
  const call = makers[task](model) as Pipelines[T];
  return Object.assign(call, { task, model, dispose: async () => end(), [dispose]: end }) as Pipeline<T>;
}

function statusesFor(report: (progress: PipelineProgress) => void, name: string) {
  let current: string | null = null;
  // One file follows the other; a server may not tell where it ends.
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
      throw invalid(
        'pooling',
        describe(pooling),
        `'none', ${Object.keys(POOLINGS)
          .map((p) => `'${p}'`)
          .join(', ')}`,
      );
    return pipelineTensor(await model.embed(texts, { ...call, pooling: POOLINGS[pooling], normalize }));
  };
}

function textClassification(model: PretrainedModel): Pipelines['text-classification'] {
  return async (texts, options) => {
    const { top_k: topK = 1, ...call } = plainOptions('text-classification', options);
    const all = await classify(model, texts, { ...call, ...(topK !== null && { topK }) });
    // One label a text comes in one flat list, as there.
    if (topK === 1) return all.flat();
    return single(texts, all);
  };
}

function tokenClassification(model: PretrainedModel): Pipelines['token-classification'] {
  return async (texts, options) => {
    const read = plainOptions('token-classification', options);
    const { ignore_labels: ignoreLabels = ['O'], aggregation_strategy: aggregation = 'none', ...call } = read;
    const all = await classifyTokens(model, texts, { ...call, ignoreLabels, aggregation });
    const named = all.map((list) =>
      list.map(({ label, score, index, word, start, end }) =>
        aggregation === 'none'
          ? { entity: label, score, index, word, start, end }
          : { entity_group: label, score, word, start, end },
      ),
    );
    return single(texts, named);
  };
}

/** One text in, its result out. */
function single<R>(texts: Texts, all: R[]): R | R[] {
  return typeof texts === 'string' ? all[0]! : all;
}
