/**
 * The interface of pretrained encoders. It is the same for models in this thread, in a worker and in a pool of workers.
 */
import { describe, guarded, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import type { EditOptions, SiteOptions } from '../base/site-options.js';
import type { Tensor, TensorInput } from '../base/tensor.js';
import type { Device } from './device.js';
import type { SimilarityFunction } from './families/sentence-config.js';
import type { Pooling } from './families/steps.js';
import type { SparseVector } from './heads/sparse.js';
import type { HeadName } from './heads/task-heads.js';
import type { EmbedImageOptions, EncodeImageOptions, EncodeImageResult, ImagesInput } from './image-encoder.js';
import type { InputOptions, ModelInput } from './input.js';
import type { VectorOutput, VectorsOf } from './quantized.js';

/** Options of all methods that run a model. */
export interface CallOptions extends EditOptions {
  /** Stops the call between layers and between texts. The call rejects with the signal's reason. */
  signal?: SignalLike | undefined;
  /** Called with the number of finished texts and the total. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
  /** Factors on the heads' outputs, [layers, heads]; 0 disables a head. */
  headMask?: TensorInput | undefined;
}

/** Options of `encode`. */
export interface EncodeOptions extends CallOptions, InputOptions, SiteOptions, Pick<EmbedOptions, 'task'> {
  /** Whether the result has `attentions`. Default false. */
  outputAttentions?: boolean | undefined;
  /** Whether the result has `hiddenStates`. Default false. */
  outputHiddenStates?: boolean | undefined;
  /** Whether the result has `projections`. Default false. */
  outputProjections?: boolean | undefined;
}

/**
 * Q, K and V, the inputs of the attention heads: one tensor [N,H,L,Dk] per layer, where Dk is the width of a head;
 * otherwise the notation of `EncodeResult`. Norms and rotary positions, where a model has them, are applied to queries
 * and keys. In models with grouped queries (Qwen3, EmbeddingGemma), keys and values have fewer heads, each for several
 * successive query heads. The layer's tensor in `attentions` is softmax(Q Kᵀ / √Dk), with the layer's window or
 * position terms if it has them; EmbeddingGemma and DeBERTa scale by another factor than 1 / √Dk.
 */
export interface Projections {
  /** The queries of each layer. */
  queries: Tensor[];
  /** The keys of each layer. */
  keys: Tensor[];
  /** The values of each layer. */
  values: Tensor[];
}

/** Notation: N texts, L tokens of the longest text, E width, H heads. Padding rows are zero. */
export interface EncodeResult {
  /** The last layer's output, [N,L,E]. */
  lastHiddenState: Tensor;
  /** The pooler's output, [N,E]. Only if the checkpoint has a pooler. */
  poolerOutput?: Tensor | undefined;
  /** The attention weights (the softmax's output), one tensor [N,H,L,L] per layer. */
  attentions?: Tensor[] | undefined;
  /** The embeddings and each layer's output, [N,L,E] each. The last is `lastHiddenState`. */
  hiddenStates?: Tensor[] | undefined;
  /** Queries, keys and values of each layer. */
  projections?: Projections | undefined;
  /** The tensors of the sites that `read` names, by name; see docs/lens.md. */
  activations?: Record<string, Tensor> | undefined;
  /** The tokens of each text. */
  tokens: string[][];
  /** The range [start, end) of each token in its text, in UTF-16 units as for `slice`; [0, 0] for special tokens. */
  offsets: [number, number][][];
  /** 1 for tokens, 0 for padding, [N,L]. */
  attentionMask: Tensor<Uint8Array>;
  /** The number of tokens that were cut from each text. */
  truncated: number[];
}

/**
 * The options of `encode`, generic in those that determine the result's type: attentions (A), hidden states (S),
 * projections (P).
 */
export type EncodeCall<A extends boolean, S extends boolean, P extends boolean> = EncodeOptions & {
  outputAttentions?: A | undefined;
  outputHiddenStates?: S | undefined;
  outputProjections?: P | undefined;
};

/** The result of `encode`, in which the requested outputs are not optional. */
export type EncodeResultFor<A extends boolean, S extends boolean, P extends boolean> = EncodeResult &
  (A extends true ? { attentions: Tensor[] } : unknown) &
  (S extends true ? { hiddenStates: Tensor[] } : unknown) &
  (P extends true ? { projections: Projections } : unknown);

/** Options of `embed`. */
export interface EmbedOptions extends CallOptions, InputOptions {
  /**
   * The pooling; the vectors of several poolings are concatenated. Default: that of the model's folder, else the mean.
   */
  pooling?: Pooling | readonly Pooling[] | undefined;
  /**
   * Whether to scale vectors to unit norm. Default: as in the model's folder; false for folders without modules.json,
   * such as those made for transformers.js.
   */
  normalize?: boolean | undefined;
  /** The number of leading entries to keep, for Matryoshka models. Default: all. */
  dimensions?: number | undefined;
  /** A prompt, which is prepended to each text. */
  prompt?: string | undefined;
  /** The name of a prompt that the model's folder defines. Cannot be combined with `prompt`. */
  promptName?: string | undefined;
  /**
   * The task of the texts, for folders with a Router, a length per task or adapters per task (Jina v3): 'query',
   * 'document' or another one that the folder names. Default: none; for `embedQuery` and `embedDocument`, theirs.
   */
  task?: string | undefined;
}

/**
 * The options of `embed`, with the type of its vectors: 'float32' (default), 'int8' with one scale per vector, or
 * 'binary', the signs as bits.
 */
export type EmbedCall<O extends VectorOutput> = EmbedOptions & { output?: O | undefined };

/** Options of `tokenize` of a model. */
export interface TokenizeOptions extends InputOptions, Pick<EmbedOptions, 'task'>, Pick<CallOptions, 'signal'> {
  /**
   * The maximum number of tokens per text. Unlike in other calls, it may exceed the model's limit; `Infinity` returns
   * all tokens.
   */
  maxLength?: number | undefined;
}

/** The tokens of texts. */
export interface TokenizeResult {
  /** The ids of the tokens of each text. */
  inputIds: number[][];
  /** The tokens of each text. */
  tokens: string[][];
  /** For each token its range [start, end) in the text, in UTF-16 code units. */
  offsets: [number, number][][];
  /**
   * The text that each token belongs to: 0 for the first, 1 for its pair, null for special tokens and for tokens given
   * as ids.
   */
  parts: (0 | 1 | null)[][];
  /** The segment of each token. */
  tokenTypeIds: number[][];
  /** 1 for each token. */
  attentionMask: number[][];
  /** The number of tokens that were cut off each text. */
  truncated: number[];
}

export interface DecodeOptions {
  /** Whether to leave out special tokens. Default true. */
  skipSpecialTokens?: boolean | undefined;
  /**
   * Whether to remove spaces before punctuation and within contractions. Default: as in tokenizer_config.json, else
   * false.
   */
  cleanUpTokenizationSpaces?: boolean | undefined;
}

/** Options of `predict`. */
export interface PredictOptions extends CallOptions, InputOptions, SiteOptions, Pick<EmbedOptions, 'task'> {
  /**
   * For 'sequence-classification': the text before each text or, if the folder has a chat template, the system message.
   * Default: the folder's default prompt.
   */
  prompt?: string | undefined;
  /** The name of a prompt of the folder, instead of `prompt`. */
  promptName?: string | undefined;
}

/** The options of `embedSparse`. */
export interface EmbedSparseCall extends CallOptions, InputOptions {
  /**
   * Whether the texts are queries or documents: adds the folder's prompt for them, and selects the route of a folder
   * with a Router. Default: neither, with the folder's default prompt and route.
   */
  promptName?: 'query' | 'document' | undefined;
}

/** Options of `embedTokens`. */
export interface EmbedTokensOptions extends CallOptions, Pick<InputOptions, 'truncation'> {
  /** Whether the texts are queries or documents, which a ColBERT encodes differently. Default: 'document'. */
  promptName?: 'query' | 'document' | undefined;
  /** The number of tokens to which texts are cut and queries padded. Default: that of the model's folder. */
  maxLength?: number | undefined;
}

export interface ScoreSpansOptions extends Pick<CallOptions, 'signal' | 'onProgress'> {}

/** The words of a text and the scores of its spans. Notation: W words, K maximum number of words per span, C labels. */
export interface SpanScores {
  /** The range [start, end) of each word in the text, in UTF-16 units. */
  words: [number, number][];
  /**
   * [W,K,C]. Entry (i, k, c) is the logit of words i to i + k for label c; -Infinity for spans that end after the last
   * word.
   */
  logits: Tensor;
}

/** The output of a task's head. */
export interface Prediction {
  /**
   * sequence-classification: [N, labels]; token-classification: [N, L, labels]; question-answering: [N, L, 2];
   * fill-mask: [masks, V], where V is the size of the vocabulary.
   */
  logits: Tensor;
  /** The ids of the tokens of each text. */
  inputIds: number[][];
  /** The tokens of each text. */
  tokens: string[][];
  /** For each token its range [start, end) in the text, in UTF-16 code units. */
  offsets: [number, number][][];
  /** The text that each token belongs to: 0 for the first, 1 for its pair, null for special tokens. */
  parts: (0 | 1 | null)[][];
  /** For fill-mask: the indices of the text and the token of each row of `logits`. */
  masks: [number, number][];
  /** The tensors of the sites that `read` names, by name. */
  activations?: Record<string, Tensor> | undefined;
  /** The number of tokens that were cut off each text. */
  truncated: number[];
}

/** A classifier apart from the model whose vectors it classifies; see `loadHead`. `classify` takes it in place of a model. */
export interface TextHead {
  /** The names of the labels, and the kind of problem. */
  readonly config: Pick<ModelConfig, 'labels' | 'problemType'>;
  /**
   * Returns the logits, [N, labels], of texts that the model embeds. `options` are those of `embed`.
   *
   * @throws HeedError as `embed`
   */
  predict(
    head: 'sequence-classification',
    input: ModelInput,
    options?: EmbedOptions,
  ): Promise<Pick<Prediction, 'logits' | 'truncated'>>;
}

/** The settings of a pretrained model. */
export interface ModelConfig {
  /** The `model_type` of config.json. */
  family: string;
  /** The type of the weights in WebAssembly memory. For weights on a GPU, see `device.dtype`. */
  dtype: 'fp32' | 'q8';
  /** The types in which the file stores the encoder's matrices: 'F32', 'F16', ... */
  storage: string[];
  /** The number of rows of the token embeddings. */
  vocabSize: number;
  /** The width of the last hidden states. In EmbeddingGemma 2, those before are narrower. */
  embedDim: number;
  /** The width of vectors, see `PretrainedModel.dimensions`. */
  dimensions: number;
  /** The number of layers. */
  numLayers: number;
  /** The number of heads of a layer. */
  numHeads: number;
  /** The width inside the feed-forward part. */
  feedForwardDim: number;
  /** The default maximum number of tokens per text; longer texts are cut. */
  maxLength: number;
  /** The number of parameters. */
  parameterCount: number;
  /** The text encoder's pooling: 'mean', or several as 'cls+mean'. 'cls' for models that encode only images. */
  pooling: string;
  /** Whether `embed` scales vectors to unit norm by default. */
  normalize: boolean;
  /** The prompts of the folder, by name. */
  prompts: Record<string, string>;
  /**
   * The similarity for which the vectors are meant: `similarity_fn_name` of the model's folder. Default: the cosine.
   */
  similarity: SimilarityFunction;
  /** The labels of a classifier, by id. */
  labels: string[];
  /**
   * 'single_label_classification', 'multi_label_classification' or 'regression'; null if config.json does not specify
   * it.
   */
  problemType: string | null;
  /**
   * For classifiers and rerankers: the class of torch.nn that sentence-transformers' `CrossEncoder.predict` applies to
   * the scores, such as 'Sigmoid' or 'Identity'. It is the one that the folder names, else 'Sigmoid' for one label and
   * 'Identity' for several. null for other models.
   */
  scoreActivation: string | null;
  /** Whether the model accepts texts. Without a tokenizer, it accepts only token ids. */
  hasTokenizer: boolean;
  /** Whether the model accepts images (`embedImages`). */
  hasImageEncoder: boolean;
  /** The mask token; null if the tokenizer has none. */
  maskToken: string | null;
  /** The prefix of tokens that continue a word, such as '##' of WordPiece tokenizers; null if the tokenizer has none. */
  subwordPrefix: string | null;
  /** Tensors in the file that the model does not use. */
  unusedTensors: string[];
  /**
   * Settings in the folder's files that heed does not know, such as 'config.json: foo' and
   * 'sentence_bert_config.json: bar.baz'. They have not been applied, and may change what the model computes in Python.
   * The option `strict` rejects them. Settings that are known to have no effect on heed's results are not listed.
   */
  unread: string[];
}

/** The number of workers that run a model (0: it runs in the calling thread), and the reason. */
export interface Workers {
  /** The number of workers. */
  readonly count: number;
  /** Why there are this many. */
  readonly reason: string;
}

/** A pretrained encoder, as `fromPretrained` returns it. */
export interface PretrainedModel {
  /** What is known of the model: its family, sizes, labels, prompts, and how its vectors are pooled. */
  readonly config: ModelConfig;
  /**
   * The width of the vectors that `embed` returns by default, for the schema of a database. It differs from
   * `config.embedDim` if layers follow the pooling, or if there are several poolings. For models that embed only images:
   * the width of `embedImages`.
   */
  readonly dimensions: number;
  /** The workers in which the model runs. */
  readonly workers: Workers;
  /** The device that runs the model's layers, and the reason. For a model in a worker: as of loading. */
  readonly device: Device;
  /** Whether `dispose()` was called. */
  readonly disposed: boolean;
  /**
   * Returns the encoder's outputs for each token.
   *
   * @example
   * const { lastHiddenState, attentions } = await model.encode(['Hello', 'Hi there'], { outputAttentions: true });
   * @throws HeedError TOO_LONG if a text exceeds the limit and `truncation` is false; UNSUPPORTED for texts if the
   * folder has no tokenizer.json
   */
  encode<A extends boolean = false, S extends boolean = false, P extends boolean = false>(
    input: ModelInput,
    options?: EncodeCall<A, S, P>,
  ): Promise<EncodeResultFor<A, S, P>>;
  /**
   * Returns one vector per text: [N,E]. Texts are cut to `config.maxLength` tokens unless `truncation` or `maxLength`
   * specify otherwise; `truncated` of the result has the number of tokens that were cut from each text.
   *
   * @example
   * const vectors = await model.embed(['a fox', 'a dog'], { normalize: true });
   * vectors.truncated; // [0, 0]
   * const { data, scales } = await model.embed(texts, { output: 'int8' }); // a quarter of the bytes
   * @throws HeedError TOO_LONG if a text exceeds the limit and `truncation` is false
   */
  embed<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>>;
  /**
   * Embeds the queries of a search: `embed` with the prompt named `query` or `search_query` in the model's folder, or
   * as `embed` by default if there is none. `prompt` and `promptName` override it; token ids are embedded as given.
   * Corresponds to sentence-transformers' encode_query, which does not look for `search_query` and does not fall back
   * to the default prompt.
   *
   * @example
   * const [hits] = semanticSearch(await model.embedQuery('a fox'), await model.embedDocument(['the quick fox', 'a dog']));
   */
  embedQuery<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>>;
  /**
   * Embeds the documents of a search: `embed` with the prompt named `document`, `passage`, `corpus` or
   * `search_document` in the model's folder, or as `embed` by default if there is none. Corresponds to
   * sentence-transformers' encode_document, which has no `search_document` and takes `document` even if the folder does
   * not define it, as an empty prompt.
   *
   * @example
   * const documents = await model.embedDocument(['the quick fox', 'a dog']);
   */
  embedDocument<O extends VectorOutput = 'float32'>(input: ModelInput, options?: EmbedCall<O>): Promise<VectorsOf<O>>;
  /**
   * Returns the tokens that the model runs on, special tokens included. For token ids, returns the ids with their
   * tokens' texts, and the given mask: all lists of a text have one entry per column of the outputs, padding included.
   *
   * @example
   * const { tokens, inputIds } = await model.tokenize('a fox');
   * tokens[0]; // ["[CLS]", "a", "fox", "[SEP]"]
   */
  tokenize(input: ModelInput, options?: TokenizeOptions): Promise<TokenizeResult>;
  /**
   * Returns the logits of a task's head.
   *
   * @example
   * const { logits } = await classifier.predict('sequence-classification', ['a fox', 'a dog']);
   * logits.shape; // [2, labels]
   * @throws HeedError UNSUPPORTED if the checkpoint has no such head
   */
  predict(head: HeadName, input: ModelInput, options?: PredictOptions): Promise<Prediction>;
  /**
   * Returns sparse vectors of a masked language model (SPLADE): per text, the vocabulary's tokens that describe it,
   * with the weights max log(1 + relu(logits)) over the text's tokens. For a folder of sentence-transformers'
   * SparseEncoder with other modules, the vectors of these modules.
   *
   * @example
   * const [query, ...documents] = await maskedModel.embedSparse(['a fox', 'the quick fox', 'a dog']);
   * documents.map((document) => sparseDot(query, document));
   * @throws HeedError UNSUPPORTED if the checkpoint has no MLM head, and the folder no other module for sparse vectors
   */
  embedSparse(input: ModelInput, options?: EmbedSparseCall): Promise<SparseVector[]>;
  /**
   * Returns one vector per token for late interaction (ColBERT): [tokens, D] per text, to be compared by `maxSim`. For a
   * ColBERT, the folder defines the prompts of queries and documents, the number of tokens to which queries are padded
   * with mask tokens, and the punctuation that is left out of documents. Other models have none of these; their vectors
   * are the last hidden states. The vectors have unit norm, except for folders of sentence-transformers'
   * MultiVectorEncoder without a module that normalizes them.
   *
   * @example
   * const [query] = await model.embedTokens('a fox', { promptName: 'query' });
   * const documents = await model.embedTokens(['the quick fox', 'a dog'], { promptName: 'document' });
   * maxSim(query, documents); // a score for each document
   * @throws HeedError UNSUPPORTED if the folder has no tokenizer.json, or no mask token to pad queries with
   */
  embedTokens(texts: string | readonly string[], options?: EmbedTokensOptions): Promise<Tensor[]>;
  /**
   * Returns the logits of each text's spans for each label, using a GLiNER model; see `extractEntities`. Texts may have
   * any length: they are scored in windows of as many words as the model accepts, and successive windows share K - 1
   * words.
   *
   * @example
   * const [{ words, logits }] = await gliner.scoreSpans('Ada lives in London.', ['person', 'city']);
   * logits.shape; // words, words per span, labels
   * @throws HeedError UNSUPPORTED for other models; TOO_LONG if the labels leave no tokens for words
   */
  scoreSpans(
    texts: string | readonly string[],
    labels: readonly string[],
    options?: ScoreSpansOptions,
  ): Promise<SpanScores[]>;
  /**
   * Returns one vector per image: [N,E]. For CLIP and SigLIP, images and texts (`embed`) share one vector space.
   *
   * @example
   * const vectors = await imageModel.embedImages([imageData, blob], { normalize: true });
   * const [hits] = semanticSearch(await imageModel.embed('a red bicycle'), vectors, { topK: 10 });
   * @throws HeedError UNSUPPORTED if the model has no image encoder, or for encoded images if the environment cannot
   * decode them
   */
  embedImages(images: ImagesInput, options?: EmbedImageOptions): Promise<Tensor>;
  /**
   * Returns the image encoder's outputs for each patch.
   *
   * @example
   * const { lastHiddenState, attentions } = await imageModel.encodeImage(imageData, { outputAttentions: true });
   * @throws HeedError as `embedImages`
   */
  encodeImage(images: ImagesInput, options?: EncodeImageOptions): Promise<EncodeImageResult>;
  /**
   * Reads a classifier that `save({ head: true })` of heed/train wrote, for this model's vectors. Any number of them can
   * share the model.
   *
   * @example
   * const spam = await model.loadHead(headBytes);
   * const [labels] = await classify(spam, 'You have won!');
   * @throws HeedError INVALID_FILE for a damaged file, and for the head of another model
   */
  loadHead(file: ArrayBufferLike | ArrayBufferView): Promise<TextHead>;
  /**
   * Decodes token ids to a text.
   *
   * @example
   * const { inputIds } = await model.tokenize('a fox');
   * await model.decode(inputIds[0]); // "a fox"
   */
  decode(ids: readonly number[], options?: DecodeOptions): Promise<string>;
  /**
   * Frees the model's memory or ends its workers.
   *
   * @example
   * const model = await heed.fromPretrained(); // or `using model = ...`
   * model.dispose();
   */
  dispose(): void;
  /** Calls `dispose`, for `using`. */
  [Symbol.dispose](): void;
}

/** Rejects a value that is not a model, that is, has no method `method`. */
export function requireModel(owner: string, model: unknown, method: keyof PretrainedModel): void {
  if (typeof guarded(`${owner}: model`, () => (model as PretrainedModel | null)?.[method]) !== 'function')
    throw invalid(`${owner}: model`, 'a model that `fromPretrained` returned', describe(model));
}
