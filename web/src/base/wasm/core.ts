/**
 * The API of the compiled WebAssembly module, as TypeScript types. They are internal; only `module.ts` makes a `Core`.
 *
 * Data is passed as plain arrays, which the bindings copy: JavaScript never holds an address or view of WebAssembly
 * memory. Notation: N sequences, L queries, S keys, E width, H heads, T total number of rows of all sequences.
 */
import type { PaddedRow } from '../padding.js';

/** An fp32 tensor, row-major. Results are new arrays owned by JavaScript. */
export interface RawTensor {
  data: Float32Array;
  shape: number[];
}

/** Class indices or ids. */
export interface RawIndices {
  data: Int32Array;
  shape: number[];
}

/**
 * Formats of rows with 2 to 4 bits per weight: those of heed 0.2.0, and by trellis-coded quantization. See
 * docs/quantization.md.
 */
export type RowCode = 'int4' | 'trellis2' | 'trellis3' | 'trellis4';

/** A mask of bytes (1 = may attend) or floats (added to the scores). */
export interface RawMask {
  data: Uint8Array | Float32Array;
  shape: number[];
}

export interface RawAttended {
  output: RawTensor;
  weights: RawTensor | null;
}

/** An edit of a site; see `SiteEdit` in heed/sites.h. */
export interface RawSiteEdit {
  /** 16 * layer + the number of the site. */
  code: number;
  verb: number;
  /**
   * Per axis (n, h, l, d), the index of each entry in the selection, or -1 if it is not selected. null: the whole axis.
   */
  selected: (Int32Array | null)[];
  extents: number[];
  strides: number[];
  operand: RawTensor | null;
  /** The index of the edit in the caller's list. */
  number: number;
}

/** The layout of a site's values in its tensor. */
export interface RawSiteLayout {
  /** The names under which the call reads the site. */
  names: string[];
  shape: number[];
  heads: number;
  rows: readonly PaddedRow[];
  /** The last axis of `scores` and `weights`. */
  keys: readonly PaddedRow[] | null;
}

/** The sites that a call reads and edits. */
export interface RawSites {
  /** The codes of the sites to read. */
  reads: Int32Array;
  /** The column of each row in padded tensors; null: 0, 1, 2, ... per sequence. */
  columns: Int32Array | null;
  edits: RawSiteEdit[];
  /** The number of edits in the whole call. `edits` contains those that apply to these texts. */
  numEdits: number;
  /** Receives the values of a site for all sequences, concatenated without padding. */
  read(code: number, values: Float32Array): void;
  /** Receives the selection of an edit, padded with zeros. Returns the new values, as many as it received. */
  map(edit: number, values: Float32Array): Float32Array;
  /** Training only: the layout of a site that is read, by its code. */
  layoutOf(code: number): RawSiteLayout;
  /** Training only: receives the tensor of a site that is read. */
  keep(code: number, tensor: RawTensor): void;
}

/** A layer or model that owns parameters. */
export interface RawModule {
  /** The parameters, with PyTorch's names, shapes and order. */
  parameters(): { name: string; shape: number[]; isBuffer: boolean }[];
  readParameter(index: number): Float32Array;
  /**
   * Writes rows [firstRow, firstRow + rows) of a parameter. `bytes`: little-endian values of type `dtype`. `scales`:
   * one per row for I8 and int4; for trellises, also one per column after them and, with `columns`, row (among those of
   * `bytes`), column and value of each outlier; else null. 'rotated I8': rows of a matrix that `rotate` of
   * `folders/quantize-rows.ts` has transformed; 'Hadamard I8': the same without signs, in files of earlier builds.
   */
  writeParameter(
    index: number,
    firstRow: number,
    bytes: Uint8Array,
    dtype: 'F32' | 'F16' | 'BF16' | 'I8' | 'Hadamard I8' | 'rotated I8' | RowCode | `${RowCode}columns`,
    scales: Float32Array | null,
  ): void;
  setTraining(training: boolean): void;
  /** Reseeds its dropout. */
  seed(seed: number): void;
  /** Initializes the parameters as PyTorch's module of the same name does. */
  initialize(seed: number): void;
  /** Whether a call that uses the module's parameters is in progress. */
  isRunning(): boolean;
  delete(): void;
}

/**
 * A layer. Its arguments are tensors, masks and options by name, and none may be absent. The result is a tensor or an
 * object of tensors. In heed/train, variables of the tape take the place of tensors.
 */
export interface RawLayer<Arguments extends object = object, Result = unknown> extends RawModule {
  forward(given: Arguments): Result;
}

export type RawTensorLayer = RawLayer<{ x: RawTensor }, RawTensor>;

/** Rotary embedding of projected queries and keys. */
export interface RawRotaryOptions {
  /** The number of rotated features per head; 0: the whole head. */
  dim: number;
  base: number;
  pairing: 'half-split' | 'interleaved';
}

/** The result of layers that return one set of weights per layer, or null. */
export interface RawWeighted<Weights> {
  output: RawTensor;
  weights: Weights[] | null;
}

export interface RawDecoderWeights {
  self: RawTensor;
  memory: RawTensor;
}

export interface RawDecoderCache {
  /** The number of rows processed so far. */
  length(): number;
  copy(): RawDecoderCache;
  delete(): void;
}

/** A decoder's memory or a Transformer's source, [N,S,E] or [S,E], with its key mask, [N,S]. */
export interface RawCacheInput {
  input: RawTensor;
  keyMask: RawMask | null;
}

/** A module with a decoder that can run step by step. */
export interface RawIncrementalDecoder<Arguments extends object = object, Result = unknown>
  extends RawLayer<Arguments, Result> {
  makeCache(given: RawCacheInput): RawDecoderCache;
  /** Processes the next rows, [N,L,E] or [L,E]. */
  step(given: { target: RawTensor }, cache: RawDecoderCache): RawTensor;
}

/** The current hidden states of a batch of texts or images. */
export interface RawRows {
  /** A copy of the hidden states, [T, E]. */
  hidden(): Float32Array;
  /**
   * Pools to [N, E]. `skipped`: the number of tokens at each text's beginning that a mean or maximum leaves out; null:
   * none.
   */
  pool(
    pooling: 'mean' | 'cls' | 'last' | 'max' | 'mean_sqrt_len' | 'weighted_mean',
    skipped: Int32Array | null,
  ): Float32Array;
}

/** A batch of texts or images that an `EncoderModel` is encoding. */
export interface RawEncoding extends RawRows {
  /** Runs layer `i`. Returns the attention weights of all texts, concatenated, each [H, L_n, L_n], or null. */
  runLayer(i: number, headMask: Float32Array | null, returnWeights: boolean): Float32Array | null;
  /** Applies the final norm, if the model has one. */
  applyFinalNorm(): void;
  delete(): void;
}

/** The C++ `EncoderModelConfig`, which defines the defaults of absent options. */
export interface RawEncoderModelConfig {
  vocabSize: number;
  embedDim: number;
  /** The width of factorized embedding tables; 0: embedDim, without a projection. */
  embeddingDim?: number | undefined;
  numLayers: number;
  numHeads: number;
  /** The number of key and value heads. */
  keyValueHeads: number;
  /** The width of a head. */
  headDim: number;
  feedForwardDim: number;
  maxPositions: number;
  positionOffset: number;
  typeVocabSize: number;
  /** The rows of the task type table, whose first row is added to every token; 0: no table. */
  taskVocabSize?: number | undefined;
  activation: string;
  eps: number;
  positions: 'absolute' | 'relative' | 'rotary' | 'alibi' | 'disentangled';
  /** 'relative': number of buckets. 'disentangled': rows per side of the embeddings of distances; 0: none. */
  relativeBuckets?: number | undefined;
  /** The distance at which the last bucket begins; 0 ('disentangled'): every distance has its own row. */
  relativeDistance?: number | undefined;
  relativeNorm?: boolean | undefined;
  /** 'relative': whether every layer has its own biases, in a table [numLayers * relativeBuckets, numHeads]. */
  relativePerLayer?: boolean | undefined;
  /** The number of tasks with low-rank adapters, their rank, and the factor on what they add. */
  adapterTasks?: number | undefined;
  adapterRank?: number | undefined;
  adapterScale?: number | undefined;
  /** 'relative' and 'disentangled': whether there are also learned absolute position embeddings. */
  positionEmbeddings?: boolean | undefined;
  /** 'disentangled': whether each layer has its own projections of the relative-position embeddings. */
  positionProjections?: boolean | undefined;
  /** 'disentangled': whether scores have the term of queries and distances. Default true. */
  contentToPosition?: boolean | undefined;
  /** 'disentangled': whether scores have the term of keys and distances. Default true. */
  positionToContent?: boolean | undefined;
  /**
   * The kernel width of a convolution over the embeddings, whose result is added to the first layer's output; 0: no
   * convolution.
   */
  convolution?: number | undefined;
  /** The convolution's activation. Required if there is a convolution. */
  convolutionActivation?: string | undefined;
  rotaryDim?: number | undefined;
  rotaryBase?: number | undefined;
  localRotaryBase?: number | undefined;
  rotaryScale?: number | undefined;
  /** The angle per position of each rotated pair of features, instead of what rotaryDim, bases and scale give. */
  rotaryFrequencies?: number[] | undefined;
  /** The same for layers with a window. Absent: from rotaryDim, localRotaryBase and rotaryScale. */
  localRotaryFrequencies?: number[] | undefined;
  /** The factor on cosines and sines. Default 1. */
  rotaryFactor?: number | undefined;
  localRotaryFactor?: number | undefined;
  /** Whether the rotated pairs are features (2k, 2k + 1) instead of (k, k + rotaryDim / 2). */
  rotaryInterleaved?: boolean | undefined;
  /** Whether the values are rotated, too. */
  rotaryValues?: boolean | undefined;
  /** The attention window of local layers; -1: none. */
  window?: number | undefined;
  /** Per layer, whether its attention is limited to the window. Absent: no layer's is. */
  localLayers?: boolean[] | undefined;
  /** The width of a head in local layers; 0: headDim. */
  localHeadDim?: number | undefined;
  /** The number of key and value heads in local layers; 0: keyValueHeads. */
  localKeyValueHeads?: number | undefined;
  /** The width of the signals that gate a third block of each layer (EmbeddingGemma 2); 0: no such blocks. */
  layerInputDim?: number | undefined;
  causal?: boolean | undefined;
  /** The factor on attention scores; 0: 1 / sqrt(headDim). */
  attentionScale?: number | undefined;
  embeddingScale?: number | undefined;
  normFirst?: boolean | undefined;
  embeddingNorm?: boolean | undefined;
  /** Whether factorized embeddings are projected before the norm, without a bias. */
  projectionFirst?: boolean | undefined;
  finalNorm?: boolean | undefined;
  /** The width of a projection after the final norm; 0: none. See `outputWidth`. */
  outputDim?: number | undefined;
  bias?: boolean | undefined;
  /** Whether the projections of attention have biases, if `bias`. Default true. */
  attentionBias?: boolean | undefined;
  /** Whether the feed-forward block has biases, if `bias`. Default true. */
  feedForwardBias?: boolean | undefined;
  normBias?: boolean | undefined;
  rmsNorm?: boolean | undefined;
  normWeightOffset?: number | undefined;
  qkNorm?: boolean | undefined;
  /** RMSNorm without weights over the values of each head. */
  valueNorm?: boolean | undefined;
  /** One norm spans the queries of all heads, and one the keys of all heads. */
  jointQkNorm?: boolean | undefined;
  /** The attention block is LN(x + LN'(x + MHA(x))). */
  nestedNorm?: boolean | undefined;
  outputNorms?: boolean | undefined;
  layerScale?: boolean | undefined;
  /**
   * The side length of a patch, for image encoders. `maxPositions` is then the number of rows of the position table.
   */
  patchSize?: number | undefined;
  /** Whether a learned class token precedes the patch tokens. */
  classRow?: boolean | undefined;
  /** The number of learned register tokens between the class token and the patch tokens. */
  registers?: number | undefined;
  gated?: boolean | undefined;
  gateSecond?: boolean | undefined;
  linear1Bias?: boolean | undefined;
  firstAttentionNorm?: boolean | undefined;
  sharedLayers?: boolean | undefined;
  /** The format in which the token embeddings are stored instead; undefined: none. */
  tableCode?: RowCode | undefined;
  int8: boolean;
}

export interface RawEncoderModel extends RawModule {
  /**
   * Embeds texts of `lengths` tokens each, concatenated. tokenTypes: null means all 0. positions: null means 0, 1, 2,
   * ... plus the model's offset. keyMask: null if all tokens attend to each other; otherwise 0, or -Infinity for tokens
   * to which no token attends, for texts of equal length. adapters: the number of the task whose adapters are added; -1:
   * none.
   */
  begin(
    ids: Int32Array,
    tokenTypes: Int32Array | null,
    positions: Int32Array | null,
    lengths: Int32Array,
    keyMask: Float32Array | null,
    sites: RawSites | null,
    adapters: number,
  ): RawEncoding;
  /**
   * Embeds images, pixels [N, 3, height, width]. positions: null means the model's table, for images of the
   * checkpoint's size. angles: [L, Dk / 2], those of rotary positions for an image's rows, or null.
   */
  beginImages(
    pixels: RawTensor,
    positions: RawTensor | null,
    angles: RawTensor | null,
    sites: RawSites | null,
  ): RawEncoding;
  /** Vocabulary logits: x [rows, D] times the transposed token embeddings, [rows, V]. */
  wordLogits(x: RawTensor): RawTensor;
  /**
   * From now on, accumulates X^T X [K, K] of the inputs X [T, K] of linear layers, given by the indices of their weights
   * among the parameters. An empty list ends this and frees the memory.
   */
  recordInputs(parameters: readonly number[]): void;
  /** The accumulated X^T X of the i-th of these weights. */
  inputGram(i: number): Float32Array;
}

/** The C++ `VectorIndex`. */
export interface RawVectorIndex {
  count(): number;
  /** Appends rows: `bytes` as they are stored, `factors` one per row. */
  append(bytes: Uint8Array, factors: Float32Array): void;
  keep(rows: Uint32Array): void;
  rows(first: number, count: number): Uint8Array<ArrayBuffer>;
  /**
   * Searches for queries [N,D] with thresholds [N]. `hits` [N, topK, 2] has the row and the score (a float's bits) of
   * the first `counts[n]` hits of query n.
   */
  search(
    queries: Float32Array,
    options: { topK: number; thresholds: Float32Array; candidates: number; allowed: Uint32Array | null },
  ): { counts: Uint32Array; hits: Uint32Array };
  delete(): void;
}

type RawClass<Made, Options = object> = new (options: Options) => Made;

/** Functions without parameters of their own. */
export interface RawFunctions {
  /**
   * Functions of tensors. Arguments are tensors, masks and options by name, and none may be absent, as for `RawLayer`.
   */
  compute(name: 'attention', given: object): RawAttended;
  compute(name: 'softmax' | 'linear' | 'layerNorm' | 'dropout' | 'rotary', given: object): RawTensor;
  positionalEncoding(length: number, dim: number, base: number, start: number): RawTensor;
  /** Returns [H,L,S]. */
  alibi(numHeads: number, queries: number, keys: number): RawTensor;
  /** Maps a table [buckets,H] to [H,L,S]. */
  relativeBias(
    table: RawTensor,
    options: { queries: number; keys: number; maxDistance: number; bidirectional: boolean },
  ): RawTensor;
}

/**
 * The layer classes by their names in the API; only those used outside the layers' own files are listed. The options
 * are those that the layer's schema has read; none may be absent.
 */
export interface RawLayers {
  Linear: RawClass<RawTensorLayer, { inFeatures: number; outFeatures: number; bias: boolean; activation: string }>;
  LayerNorm: RawClass<RawTensorLayer, { normalizedShape: number; eps: number; name?: string | undefined }>;
  Dropout: RawClass<RawTensorLayer>;
  FeedForward: RawClass<RawTensorLayer>;
  MultiHeadAttention: RawClass<
    RawLayer<object, RawAttended>,
    { activation: { query: string; key: string; value: string }; [option: string]: unknown }
  >;
  LSTM: RawClass<RawTensorLayer>;
  Parameter: RawClass<RawLayer<object, RawTensor>>;
  /**
   * forward() accepts optional `angles` [L, Dk / 2]: they rotate the queries and keys of row i, with half-split pairs.
   */
  EncoderLayer: RawClass<RawLayer<object, RawAttended>>;
}

/**
 * The functions and layer classes that the API calls: those of the WebAssembly module or, in heed/train, wrappers that
 * record the calls.
 */
export interface Calls extends RawFunctions, RawLayers {}

/**
 * The compiled WebAssembly module: functions on plain data, and classes that own parameters. Failures are thrown as
 * HeedError.
 */
export interface Core extends Calls {
  EncoderModel: RawClass<RawEncoderModel, RawEncoderModelConfig>;
  VectorIndex: new (form: 'float32' | 'int8' | 'bits', width: number) => RawVectorIndex;

  /**
   * Only in builds with threads: prepares for `count` threads besides the caller (0: none). Returns the functions that
   * initialize a thread, run it and report its failure, and the size of its stack.
   */
  startThreads?(
    count: number,
    cores: number,
    mayWait: boolean,
  ): [initialize: number, main: number, failed: number, stackBytes: number];
  /** Prepares for a new thread i, which replaces the previous one. Returns the address of its stack. */
  addThread?(i: number): number;

  /**
   * Makes the SIMD128 builds multiply 6 rows at a time instead of 5: the same bits, faster in JavaScriptCore. Must be
   * called before anything else.
   */
  useTallRowBlocks(): void;

  /**
   * Trellis-coded quantization of sequences of weights, one after another: finds the states with the minimum of
   * sum_k (targets[k] - steps[k] level(state_k))^2 for each sequence. The lowest `bits` bits of a state are the number
   * to store. See docs/quantization.md. Sequences are shared among threads.
   */
  trellisSearch(bits: 2 | 3 | 4, lengths: Int32Array, targets: Float32Array, steps: Float32Array): Uint16Array;
  /**
   * The upper triangular R [K, K] with H = R R^T for the upper triangle of a symmetric matrix H; null if H is not positive
   * definite. Its lower triangle is unspecified.
   */
  triangularFactor(matrix: Float64Array, width: number): Float64Array | null;

  /** The compiler of the module and its version. */
  compiler(): string;
  /** The size of the WebAssembly memory in bytes. */
  memoryBytes(): number;
  /** Reserves `bytes` in one block, growing the memory at most once. Has no effect if that fails. */
  reserveMemory(bytes: number): void;
  /** Discards the calls in progress after a trap has ended them. */
  abandonCalls(): void;
}
