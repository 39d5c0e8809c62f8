/** The interface of pretrained encoders, the same whether the model runs in this thread, in a worker or in a pool of workers. */
import { describe, guarded, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import type { EditOptions, SiteOptions } from '../base/sites.js';
import type { Tensor, TensorInput } from '../base/tensor.js';
import type { Device } from './device.js';
import type { Pooling, Similarity } from './families/sentence-transformers.js';
import type { SparseVector } from './heads/sparse.js';
import type { HeadName } from './heads/task-heads.js';
import type { EmbedImageOptions, EncodeImageOptions, EncodeImageResult, ImagesInput } from './image-encoder.js';
import type { InputOptions, ModelInput } from './input.js';
import type { VectorOutput, VectorsOf } from './quantized.js';

export interface CallOptions extends EditOptions {
  /** Stops the call between layers and between texts; it rejects with the signal's reason. */
  signal?: SignalLike;
  /** Called with the number of texts done so far and in total. */
  onProgress?: (progress: { done: number; total: number }) => void;
  /** Factors on the heads' outputs, [layers, heads]; 0 disables a head. */
  headMask?: TensorInput;
}

export interface EncodeOptions extends CallOptions, InputOptions, SiteOptions {
  /** Whether the result has `attentions`. Default false. */
  outputAttentions?: boolean;
  /** Whether the result has `hiddenStates`. Default false. */
  outputHiddenStates?: boolean;
  /** Whether the result has `projections`. Default false. */
  outputProjections?: boolean;
}

/**
 * Q, K and V as the heads multiply them, one tensor [N,H,L,Dk] per layer, where Dk is the width of a head; otherwise the notation of `EncodeResult`. In models with grouped
 * queries (Qwen3, EmbeddingGemma), keys and values have fewer heads, each for several successive heads of the queries. Norms and rotary positions, where a model has them, are
 * applied to queries and keys. softmax(Q Kᵀ / √Dk), plus the layer's window or position terms if it has some, is that layer's tensor of `attentions`; EmbeddingGemma and
 * DeBERTa have another factor than 1 / √Dk.
 */
export interface Projections {
  queries: Tensor[];
  keys: Tensor[];
  values: Tensor[];
}

/** Notation: N texts, L the longest one's tokens, E width, H heads. Rows of padding are zeros. */
export interface EncodeResult {
  /** [N,L,E] */
  lastHiddenState: Tensor;
  /** [N,E]; only if the checkpoint has a pooler */
  poolerOutput?: Tensor;
  /** One tensor [N,H,L,L] per layer: the softmax's output. */
  attentions?: Tensor[];
  /** The embeddings and each layer's output, [N,L,E] each; the last is lastHiddenState. */
  hiddenStates?: Tensor[];
  /** Q, K and V of each layer. */
  projections?: Projections;
  /** The tensor of each site that `read` names, see docs/lens.md. */
  activations?: Record<string, Tensor>;
  /** Each text's tokens. */
  tokens: string[][];
  /** The range of each token in its text, [start, end) in UTF-16 units as for `slice`; special tokens have [0, 0]. */
  offsets: [number, number][][];
  /** 1 for tokens, 0 for padding; [N,L] */
  attentionMask: Tensor<Uint8Array>;
  /** The number of tokens cut from each text. */
  truncated: number[];
}

/** The options of `encode` with the values of those that decide what the result has: attentions (A), hidden states (S), projections (P). */
export type EncodeCall<A extends boolean, S extends boolean, P extends boolean> = EncodeOptions & {
  outputAttentions?: A;
  outputHiddenStates?: S;
  outputProjections?: P;
};

/** The result of `encode`: the outputs that are requested are not optional. */
export type EncodeResultFor<A extends boolean, S extends boolean, P extends boolean> = EncodeResult &
  (A extends true ? { attentions: Tensor[] } : unknown) &
  (S extends true ? { hiddenStates: Tensor[] } : unknown) &
  (P extends true ? { projections: Projections } : unknown);

export interface EmbedOptions extends CallOptions, InputOptions {
  /** Default: as the model's folder says, else the mean. The vectors of several poolings are concatenated. */
  pooling?: Pooling | readonly Pooling[];
  /** Whether to scale vectors to length 1. Default: as the model's folder says, else false. */
  normalize?: boolean;
  /** The number of leading entries to keep (Matryoshka models). Default: all. */
  dimensions?: number;
  /** A text to put before each text. */
  prompt?: string;
  /** The name of a prompt that the model's folder defines; not together with `prompt`. */
  promptName?: string;
}

/** The options of `embed`, and the form of its vectors: 'float32' (default), 'int8' with a scale per vector, or 'binary', the signs as bits. */
export type EmbedCall<O extends VectorOutput> = EmbedOptions & { output?: O };

export interface TokenizeOptions extends InputOptions, Pick<CallOptions, 'signal'> {
  /** As in other calls, but any number is allowed: `Infinity` for all tokens of texts that are too long for the model. */
  maxLength?: number;
}

export interface TokenizeResult {
  inputIds: number[][];
  tokens: string[][];
  offsets: [number, number][][];
  /** Which text each token is from, 0: the first, 1: its pair, null: special tokens, and all tokens that were given as ids. */
  parts: (0 | 1 | null)[][];
  tokenTypeIds: number[][];
  attentionMask: number[][];
  truncated: number[];
}

export interface PredictOptions extends CallOptions, InputOptions, SiteOptions {}

export interface EmbedTokensOptions extends CallOptions, Pick<InputOptions, 'truncation'> {
  /** What the texts are: a ColBERT encodes queries and documents differently. Default: 'document'. */
  promptName?: 'query' | 'document';
  /** The number of tokens that texts are cut to, and queries padded to. Default: as the model's folder says. */
  maxLength?: number;
}

export interface ScoreSpansOptions extends Pick<CallOptions, 'signal' | 'onProgress'> {}

/** A text's words and the scores of its spans. Notation: W words, K the largest number of words in a span, C labels. */
export interface SpanScores {
  /** The range of each word in the text, [start, end) in UTF-16 units. */
  words: [number, number][];
  /** [W,K,C]. Entry (i, k, c) is for words i to i + k and label c; -Infinity for spans that end after the last word. */
  logits: Tensor;
}

/** The logits of a task's head. */
export interface Prediction {
  /** sequence-classification: [N, labels]; token-classification: [N, L, labels]; question-answering: [N, L, 2]; fill-mask: [masks, V], V words */
  logits: Tensor;
  inputIds: number[][];
  tokens: string[][];
  offsets: [number, number][][];
  /** Which text each token is from, 0: the first, 1: its pair, null: special tokens. */
  parts: (0 | 1 | null)[][];
  /** fill-mask: the text and the token of each row of logits */
  masks: [number, number][];
  /** The tensor of each site that `read` names. */
  activations?: Record<string, Tensor>;
  truncated: number[];
}

export interface ModelConfig {
  /** config.json's model_type */
  family: string;
  /** In WebAssembly; of weights on a GPU, `device.dtype` says it. */
  dtype: 'fp32' | 'q8';
  /** Types in which the file stores the encoder's matrices: 'F32', 'F16', ... */
  storage: string[];
  vocabSize: number;
  embedDim: number;
  numLayers: number;
  numHeads: number;
  feedForwardDim: number;
  /** The number of tokens that texts are cut to by default. */
  maxLength: number;
  parameterCount: number;
  /** 'mean', or several: 'cls+mean'. Of models with an encoder of images: that of texts; 'cls' if they encode images only. */
  pooling: string;
  normalize: boolean;
  prompts: Record<string, string>;
  /** How vectors are compared, as `similarity_fn_name` of the model's folder says: the cosine by default. */
  similarity: Similarity;
  labels: string[];
  /** 'single_label_classification', 'multi_label_classification', 'regression', or null if config.json does not say. */
  problemType: string | null;
  /** Whether texts can be given; without a tokenizer, only token ids. */
  hasTokenizer: boolean;
  /** Whether images can be given to `embedImage`. */
  hasImageEncoder: boolean;
  maskToken: string | null;
  /** Tensors of the file that the model does not use. */
  unusedTensors: string[];
}

/** The number of workers that a model runs in (0: in the calling thread), and the reason for it. */
export interface Workers {
  readonly count: number;
  readonly reason: string;
}

export interface PretrainedModel {
  readonly config: ModelConfig;
  readonly workers: Workers;
  /** What runs the model's layers, and why. In a worker: as it was when the model was loaded. */
  readonly device: Device;
  readonly disposed: boolean;
  /**
   * The encoder's outputs for each token.
   *
   * @example
   * const { lastHiddenState, attentions } = await model.encode(['Hello', 'Hi there'], { outputAttentions: true });
   * @throws HeedError TOO_LONG if a text does not fit and is not to be truncated; UNSUPPORTED for texts if the folder has no tokenizer.json
   */
  encode<A extends boolean = false, S extends boolean = false, P extends boolean = false>(
    input: ModelInput,
    options?: EncodeCall<A, S, P>,
  ): Promise<EncodeResultFor<A, S, P>>;
  /**
   * One vector per text: [N,E]. Texts are cut to `config.maxLength` tokens unless `truncation` or `maxLength` say otherwise; `truncated` of the result says how many tokens each text lost.
   *
   * @example
   * const vectors = await model.embed(['a fox', 'a dog'], { normalize: true });
   * vectors.truncated; // [0, 0]
   * const { data, scales } = await model.embed(texts, { output: 'int8' }); // a quarter of the bytes
   * @throws HeedError TOO_LONG if a text does not fit and `truncation` is false
   */
  embed<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>>;
  /**
   * `embed` for the queries of a search: with the prompt of the model's folder named `query` or `search_query`; if there is none, as `embed` does by default. `prompt` or `promptName`
   * name another; token ids are embedded as they are. sentence-transformers' encode_query, except that it does not know
   * `search_query` and uses no default prompt.
   *
   * @example
   * const [hits] = semanticSearch(await model.embedQuery('a fox'), await model.embedDocument(['the quick fox', 'a dog']));
   */
  embedQuery<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>>;
  /**
   * `embed` for the documents of a search: with the prompt of the model's folder named `document`, `passage`, `corpus` or `search_document`; if there is none, as `embed` does by
   * default. sentence-transformers' encode_document uses only a prompt named `document`.
   *
   * @example
   * const documents = await model.embedDocument(['the quick fox', 'a dog']);
   */
  embedDocument<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>>;
  /**
   * The tokens that the model computes with, special tokens included. Of token ids, the same with the tokens' texts.
   *
   * @example
   * const { tokens, inputIds } = await model.tokenize('a fox');
   * tokens[0]; // ["[CLS]", "a", "fox", "[SEP]"]
   */
  tokenize(input: ModelInput, options?: TokenizeOptions): Promise<TokenizeResult>;
  /**
   * The logits of a task's head.
   *
   * @example
   * const { logits } = await classifier.predict('sequence-classification', ['a fox', 'a dog']);
   * logits.shape; // [2, labels]
   * @throws HeedError UNSUPPORTED if the checkpoint has no such head
   */
  predict(head: HeadName, input: ModelInput, options?: PredictOptions): Promise<Prediction>;
  /**
   * Sparse vectors of a masked language model (SPLADE): for each text, the tokens of the vocabulary that describe it, with weights max log(1 + relu(logits)) over the text's tokens.
   *
   * @example
   * const [query, ...documents] = await maskedModel.embedSparse(['a fox', 'the quick fox', 'a dog']);
   * documents.map((document) => sparseDot(query, document));
   * @throws HeedError UNSUPPORTED if the checkpoint has no head for masks
   */
  embedSparse(input: ModelInput, options?: PredictOptions): Promise<SparseVector[]>;
  /**
   * A vector of length 1 for each token, for late interaction (ColBERT): for each text [tokens, D], as `maxSim` compares them. The folder says what precedes queries and documents, the
   * number of tokens that queries are padded to with mask tokens, and the punctuation whose vectors documents lack; folders of other models than ColBERTs say none of these, and the vectors are
   * the last hidden states.
   *
   * @example
   * const [query] = await model.embedTokens('a fox', { promptName: 'query' });
   * const documents = await model.embedTokens(['the quick fox', 'a dog'], { promptName: 'document' });
   * maxSim(query, documents); // a score for each document
   * @throws HeedError UNSUPPORTED if the folder has no tokenizer.json, or no token to pad queries with
   */
  embedTokens(texts: string | readonly string[], options?: EmbedTokensOptions): Promise<Tensor[]>;
  /**
   * The logits of each text's spans for each label, by a GLiNER; see `extractEntities`. Texts may have any length: they are scored in windows of as many words as the model takes, each with K - 1
   * words of the preceding one.
   *
   * @example
   * const [{ words, logits }] = await gliner.scoreSpans('Ada lives in London.', ['person', 'city']);
   * logits.shape; // words, words per span, labels
   * @throws HeedError UNSUPPORTED for other models; TOO_LONG if the labels leave no room for words
   */
  scoreSpans(
    texts: string | readonly string[],
    labels: readonly string[],
    options?: ScoreSpansOptions,
  ): Promise<SpanScores[]>;
  /**
   * One vector per image: [N,E]. In CLIP and SigLIP, they are in one space with the vectors of texts that `embed` returns.
   *
   * @example
   * const vectors = await imageModel.embedImage([imageData, blob], { normalize: true });
   * const [hits] = semanticSearch(await imageModel.embed('a red bicycle'), vectors, { topK: 10 });
   * @throws HeedError UNSUPPORTED if the model has no encoder of images, and for encoded images where nothing decodes them
   */
  embedImage(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor>;
  /**
   * The same as `embedImage`.
   *
   * @example
   * const vectors = await imageModel.embedImages([imageData, blob]);
   */
  embedImages(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor>;
  /**
   * The outputs of the encoder of images for each patch.
   *
   * @example
   * const { lastHiddenState, attentions } = await imageModel.encodeImage(imageData, { outputAttentions: true });
   * @throws HeedError as `embedImage`
   */
  encodeImage(images: ImagesInput, options?: EncodeImageOptions): Promise<EncodeImageResult>;
  /**
   * The text of token ids, without special tokens if `skipSpecialTokens` is not false.
   *
   * @example
   * const { inputIds } = await model.tokenize('a fox');
   * await model.decode(inputIds[0]); // "a fox"
   */
  decode(ids: readonly number[], options?: { skipSpecialTokens?: boolean }): Promise<string>;
  /**
   * Frees the model's memory, or ends its workers.
   *
   * @example
   * const model = await heed.fromPretrained(); // or `using model = ...`
   * model.dispose();
   */
  dispose(): void;
  [Symbol.dispose](): void;
}

/** Refuses what is not a model: something without its method `method`. */
export function requireModel(owner: string, model: unknown, method: keyof PretrainedModel): void {
  if (typeof guarded(`${owner}: model`, () => (model as PretrainedModel | null)?.[method]) !== 'function')
    throw invalid(`${owner}: model`, 'a model that `fromPretrained` returned', describe(model));
}
