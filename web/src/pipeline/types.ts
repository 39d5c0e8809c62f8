/** The tasks of `pipeline`: their arguments, options and results, which are those of transformers.js. */
import type { FromPretrainedOptions, LoadOptions } from '../api/index.js';
import type { ImageCallOptions, PretrainedModel } from '../models/index.js';
import type { Aggregation, TaskOptions } from '../tasks/index.js';
import type { PipelineImages } from './images.js';
import type { PipelineTensor } from './tensor.js';

export type { PipelineImage, PipelineImages } from './images.js';
export type { PipelineData, PipelineSlice, PipelineTensor } from './tensor.js';

export type Texts = string | readonly string[];

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
