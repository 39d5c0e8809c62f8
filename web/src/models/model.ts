/** What a pretrained encoder offers, in this thread or in a worker: one interface, so that a page's code is the same with both. */
import type { SignalLike } from '../platform.js';
import type { Tensor, TensorInput } from '../tensor.js';
import type { HeadName } from './heads.js';
import type { InputOptions, ModelInput } from './input.js';
import type { Pooling } from './sentence-transformers.js';

export interface CallOptions {
  /** Stops the call, between layers and between texts; it rejects with the signal's reason. */
  signal?: SignalLike;
  /** Texts done so far and in all. */
  onProgress?: (progress: { done: number; total: number }) => void;
  /** [layers][heads] factors on the heads' outputs: 0 switches one off. */
  headMask?: TensorInput;
}

export interface EncodeOptions extends CallOptions, Omit<InputOptions, 'prompt'> {
  outputAttentions?: boolean;
  outputHiddenStates?: boolean;
}

/** N texts, L the longest one's tokens, E width, H heads. Rows of padding are zeros. */
export interface EncodeResult {
  /** [N,L,E] */
  lastHiddenState: Tensor;
  /** [N,E]; where the checkpoint has a pooler */
  poolerOutput?: Tensor;
  /** Per layer [N,H,L,L]. */
  attentions?: Tensor[];
  /** The embeddings and each layer's output, [N,L,E] each; the last is lastHiddenState. */
  hiddenStates?: Tensor[];
  tokens: string[][];
  /** Per token its place in the text, [start, end) in UTF-16 units as `slice` takes them; special tokens have [0, 0]. */
  offsets: [number, number][][];
  /** [N,L], 1 where a token is */
  attentionMask: Tensor<Uint8Array>;
  /** Tokens cut from each text. */
  truncated: number[];
}

export interface EmbedOptions extends CallOptions, Omit<InputOptions, 'prompt'> {
  /** Default: what the model folder says, else the mean. Of several, the vectors one after the other. */
  pooling?: Pooling | readonly Pooling[];
  /** To length 1. Default: what the model folder says, else false. */
  normalize?: boolean;
  /** The first so many entries only (Matryoshka models). */
  dimensions?: number;
  /** A text to set before each, or the name of one that the model folder defines. */
  prompt?: string;
  promptName?: string;
}

export interface TokenizeOptions extends Omit<InputOptions, 'prompt'>, Pick<CallOptions, 'signal'> {}

export interface TokenizeResult {
  inputIds: number[][];
  tokens: string[][];
  offsets: [number, number][][];
  tokenTypeIds: number[][];
  attentionMask: number[][];
  truncated: number[];
}

export interface PredictOptions extends CallOptions, Omit<InputOptions, 'prompt'> {}

/** The logits of a task's head. */
export interface Prediction {
  /** sequence: [N, labels]; token: [N, L, labels]; question: [N, L, 2]; fill-mask: [masks, V] */
  logits: Tensor;
  inputIds: number[][];
  tokens: string[][];
  offsets: [number, number][][];
  /** 0: the text, 1: its pair, null: special. */
  parts: (0 | 1 | null)[][];
  /** fill-mask: [text, token] of each row of logits */
  masks: [number, number][];
  truncated: number[];
}

export interface ModelConfig {
  /** config.json's model_type */
  family: string;
  dtype: 'fp32' | 'q8';
  /** How the file stores matrices. */
  storage: string[];
  vocabSize: number;
  embedDim: number;
  numLayers: number;
  numHeads: number;
  feedForwardDim: number;
  /** Tokens that texts are cut to where a call does not say. */
  maxLength: number;
  parameterCount: number;
  /** 'mean', or several put one after the other: 'cls+mean'. */
  pooling: string;
  normalize: boolean;
  prompts: Record<string, string>;
  labels: string[];
  /** 'single_label_classification', 'multi_label_classification', 'regression', or null where config.json does not say. */
  problemType: string | null;
  hasTokenizer: boolean;
  maskToken: string | null;
  /** Tensors of the file that are of no use here. */
  unusedTensors: string[];
}

/** How many workers a model runs in (0: in the calling thread), and why so many. */
export interface Workers {
  readonly count: number;
  readonly reason: string;
}

export interface PretrainedModel {
  readonly config: ModelConfig;
  readonly workers: Workers;
  readonly disposed: boolean;
  encode(input: ModelInput, options?: EncodeOptions): Promise<EncodeResult>;
  /** One vector per text: [N,E]. */
  embed(input: ModelInput, options?: EmbedOptions): Promise<Tensor>;
  tokenize(texts: string | readonly string[], options?: TokenizeOptions): Promise<TokenizeResult>;
  predict(head: HeadName, input: ModelInput, options?: PredictOptions): Promise<Prediction>;
  /** The text of token ids, without special tokens. */
  decode(ids: readonly number[]): Promise<string>;
  dispose(): void;
  [Symbol.dispose](): void;
}
