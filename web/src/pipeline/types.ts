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
  /** How token vectors are pooled into one vector per text. Default: 'none', all token vectors. */
  pooling?: 'none' | 'mean' | 'cls' | 'first_token' | 'last_token' | 'eos' | 'max' | undefined;
  /** Whether to scale vectors to unit norm. Default false. */
  normalize?: boolean | undefined;
  /**
   * Whether to return the signs of the entries as bits, 8 per byte. The width must be a multiple of 8. Default false.
   */
  quantize?: boolean | undefined;
  /**
   * The bytes that `quantize` returns: 'binary' (default), from -128 to 127, or 'ubinary', from 0 to 255, as in
   * sentence-transformers.
   */
  precision?: 'binary' | 'ubinary' | undefined;
}

/** A label of 'text-classification' and 'image-classification'. */
export interface ClassificationScore {
  /** A label of the model. */
  label: string;
  /** The score of the label, from 0 to 1. */
  score: number;
}

/** A token of 'token-classification', or a group of tokens if an aggregation strategy is given. */
export interface TokenEntity {
  /** The label of a token, such as 'B-PER'. Only without aggregation. */
  entity?: string | undefined;
  /** The label of a group, such as 'PER'. Only with aggregation. */
  entity_group?: string | undefined;
  /** The probability of the entity. */
  score: number;
  /** The index of the token in its text. */
  index?: number | undefined;
  /** The text of the entity. */
  word: string;
  /** The range [start, end) in the text, in UTF-16 units. */
  start: number;
  /** The end of the range, exclusive. */
  end: number;
}

/** A token that 'fill-mask' suggests. */
export interface MaskFilling {
  /** The probability of the token. */
  score: number;
  /** The id of the token. */
  token: number;
  /** The text of the token. */
  token_str: string;
  /** The text with the token in place of the mask. */
  sequence: string;
}

/** An answer of 'question-answering'. */
export interface QuestionAnswer {
  /** The text of the answer. */
  answer: string;
  /** The probability of the answer. */
  score: number;
  /** The range [start, end) in the context, in UTF-16 units. */
  start: number;
  /** The end of the range, exclusive. */
  end: number;
}

/** A result of 'zero-shot-classification': the labels, best first, and their scores. */
export interface ZeroShotResult {
  /** The text. */
  sequence: string;
  /** The labels, best first. */
  labels: string[];
  /** Their scores, in the same order. */
  scores: number[];
}

/** `One` if the number K of results is 1, else `Many`. */
type Top<K, One, Many> = number extends K ? One | Many : K extends 1 ? One : Many;

/** A single text gives a single result, a list of texts a list of results. */
type PerText<T extends Texts, R> = T extends string ? R : R[];

/** The function of each task. */
export interface Pipelines {
  /** Returns [texts, tokens, width], or [texts, width] with pooling. */
  'feature-extraction': <Q extends boolean = false>(
    texts: Texts,
    options?: FeatureExtractionOptions & { quantize?: Q | undefined },
  ) => Promise<Q extends true ? PipelineTensor<Int8Array | Uint8Array> : PipelineTensor>;
  /** The `top_k` labels, best first. Default 1; null: all. With one label per text, returns a flat list. */
  'text-classification': <T extends Texts, K extends number | null = 1>(
    texts: T,
    options?: TaskOptions & { top_k?: K | undefined },
  ) => Promise<Top<K, ClassificationScore[], PerText<T, ClassificationScore[]>>>;
  /**
   * Labeled tokens, or groups of tokens with an `aggregation_strategy`. Leaves out labels in `ignore_labels`; default
   * ['O'].
   */
  'token-classification': <T extends Texts>(
    texts: T,
    options?: TaskOptions & {
      ignore_labels?: readonly string[] | undefined;
      aggregation_strategy?: Aggregation | undefined;
    },
  ) => Promise<PerText<T, TokenEntity[]>>;
  /**
   * The `top_k` most likely tokens for each text's mask. Default 5. A text with several masks gives one list per mask;
   * its type is then `MaskFilling[][]`.
   */
  'fill-mask': <T extends Texts, M extends MaskFilling[] | MaskFilling[][] = MaskFilling[]>(
    texts: T,
    options?: TaskOptions & { top_k?: number | undefined },
  ) => Promise<PerText<T, M>>;
  /**
   * The best answer, or a list if `top_k` is not 1. Default 1. A list of questions, with one context for all or one per
   * question, gives one result per question.
   */
  'question-answering': <T extends Texts, K extends number = 1>(
    question: T,
    context: Texts,
    options?: TaskOptions & { top_k?: K | undefined },
  ) => Promise<PerText<T, Top<K, QuestionAnswer, QuestionAnswer[]>>>;
  /**
   * Scores labels by natural language inference. `multi_label`: whether any number of labels may apply. Default false.
   */
  'zero-shot-classification': <T extends Texts>(
    texts: T,
    labels: Texts,
    options?: TaskOptions & { hypothesis_template?: string | undefined; multi_label?: boolean | undefined },
  ) => Promise<PerText<T, ZeroShotResult>>;
  /** The `top_k` labels, best first. Default 5; null: all. A list of images gives one list per image. */
  'image-classification': <T extends PipelineImages>(
    images: T,
    options?: ImageCallOptions & { top_k?: number | null | undefined },
  ) => Promise<T extends readonly unknown[] ? ClassificationScore[][] : ClassificationScore[]>;
  /**
   * Returns [images, rows, width], or the pooled rows [images, width] with `pool`. CLIP and SigLIP return the image
   * vectors [images, width].
   */
  'image-feature-extraction': (
    images: PipelineImages,
    options?: ImageCallOptions & { pool?: boolean | undefined },
  ) => Promise<PipelineTensor>;
  'sentiment-analysis': Pipelines['text-classification'];
  ner: Pipelines['token-classification'];
}

/** The tasks that `pipeline` supports. */
export type PipelineTask = keyof Pipelines;

/** The function of a task, with its model. */
export type Pipeline<T extends PipelineTask> = Pipelines[T] & {
  readonly task: T;
  readonly model: PretrainedModel;
  /** Frees the model; calls afterwards reject with `DISPOSED`. */
  dispose(): Promise<void>;
  [Symbol.dispose](): void;
};

/**
 * Progress with the statuses of transformers.js in its order: each file is initiated, downloaded and done, then the
 * pipeline is ready.
 */
export type PipelineProgress =
  | { status: 'initiate' | 'download' | 'done'; name: string; file: string }
  | { status: 'progress'; name: string; file: string; progress: number; loaded: number; total: number }
  | {
      /** The total of all files. */
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
  extends Omit<FromPretrainedOptions, 'onProgress' | 'device' | 'dtype'>,
    Pick<LoadOptions, 'hub' | 'gpu'> {
  /** Called with the progress of loading. */
  progress_callback?: ((progress: PipelineProgress) => void) | undefined;
  /**
   * The type of the weights, as for `fromPretrained`, or the name of one of the ONNX files that transformers.js reads:
   * onnx/model_int8.onnx, onnx/model_q4.onnx, ... 'int8' and 'uint8' are run as 'q8', the others as 'fp32'. 'fp16' is
   * onnx/model_fp16.onnx except on a GPU, where it is as for `fromPretrained`.
   */
  dtype?: FromPretrainedOptions['dtype'] | 'int8' | 'uint8' | 'q4' | 'q4f16' | 'bnb4' | undefined;
  /** The device, as for `fromPretrained`; 'cpu' means 'wasm'. */
  device?: FromPretrainedOptions['device'] | 'cpu' | undefined;
}
