/**
 * The compiled module as the TypeScript API sees it. These types are internal; only `module.ts` makes a `Core`.
 *
 * Data crosses as plain arrays, which the bindings copy: JavaScript never holds an address or view of WebAssembly memory.
 * Notation: N sequences, L queries, S keys, E width, H heads, T rows of all sequences together.
 */

import type { PaddedRow } from '../padding.js';

/** fp32, row-major. Results are fresh arrays that JavaScript owns. */
export interface RawTensor {
  data: Float32Array;
  shape: number[];
}

/** Class indices or ids. */
export interface RawIndices {
  data: Int32Array;
  shape: number[];
}

/** Bytes (1 = may attend) or floats (added to the scores). */
export interface RawMask {
  data: Uint8Array | Float32Array;
  shape: number[];
}

export interface RawAttended {
  output: RawTensor;
  weights: RawTensor | null;
}

/** A change of a site, see `SiteEdit` in heed/sites.h. */
export interface RawSiteEdit {
  /** 16 times the layer, plus the number of the site. */
  code: number;
  verb: number;
  /** For each of the axes (n, h, l, d): the index of each entry in the selection, or -1; null: all. */
  selected: (Int32Array | null)[];
  extents: number[];
  strides: number[];
  operand: RawTensor | null;
  /** Which of the caller's edits it belongs to. */
  number: number;
}

/** How the values of a site are arranged in its tensor. */
export interface RawSiteLayout {
  /** The names by which the call reads it. */
  names: string[];
  shape: number[];
  heads: number;
  rows: readonly PaddedRow[];
  /** Of `scores` and `weights`: the last axis. */
  keys: readonly PaddedRow[] | null;
}

/** What a call reads and edits. */
export interface RawSites {
  /** The codes of sites. */
  reads: Int32Array;
  /** The column of each row in padded tensors; null: 0, 1, 2, ... in each sequence. */
  columns: Int32Array | null;
  edits: RawSiteEdit[];
  /** The number of edits of the whole call, of which `edits` has those that concern these texts. */
  numEdits: number;
  /** Gets the values of a site: those of all sequences, one after the other, without padding. */
  read(code: number, values: Float32Array): void;
  /** Gets the selection of an edit, with zeros as padding; returns as many values. */
  map(edit: number, values: Float32Array): Float32Array;
  /** In training, for the code of a site that is read. */
  layoutOf(code: number): RawSiteLayout;
  /** In training: makes a tensor what was read of a site. */
  keep(code: number, tensor: RawTensor): void;
}

/** A module that owns parameters. */
export interface RawModule {
  /** PyTorch's names and shapes, in PyTorch's order. */
  parameters(): { name: string; shape: number[]; isBuffer: boolean }[];
  readParameter(index: number): Float32Array;
  /** Writes rows [firstRow, firstRow + rows) of the parameter; `bytes` little-endian of `dtype`; `scales` one per row for I8, else null. */
  writeParameter(
    index: number,
    firstRow: number,
    bytes: Uint8Array,
    dtype: 'F32' | 'F16' | 'BF16' | 'I8' | 'U8',
    scales: Float32Array | null,
  ): void;
  setTraining(training: boolean): void;
  /** Reseeds its dropout. */
  seed(seed: number): void;
  /** Initializes its parameters as PyTorch's module of the same name does. */
  initialize(seed: number): void;
  /** Whether a call that uses its parameters is in progress. */
  isRunning(): boolean;
  delete(): void;
}

/**
 * A layer. Its arguments are tensors, masks and the options of the call by name, every one present; a result is a tensor or an object of tensors. In heed/train, the tape's
 * variables take the places of both.
 */
export interface RawLayer<Arguments extends object = object, Result = unknown> extends RawModule {
  forward(given: Arguments): Result;
}

export type RawTensorLayer = RawLayer<{ x: RawTensor }, RawTensor>;

/** Rotary embedding of the projected queries and keys. */
export interface RawRotaryOptions {
  /** 0: the whole head */
  dim: number;
  base: number;
  pairing: 'half-split' | 'interleaved';
}

/** A result of layers whose weights are one entry per layer, or null. */
export interface RawWeighted<Weights> {
  output: RawTensor;
  weights: Weights[] | null;
}

export interface RawDecoderWeights {
  self: RawTensor;
  memory: RawTensor;
}

export interface RawDecoderCache {
  /** Rows seen so far. */
  length(): number;
  copy(): RawDecoderCache;
  delete(): void;
}

/** A decoder's memory or a Transformer's source, [N,S,E] or [S,E], and its key mask, [N,S]. */
export interface RawCacheInput {
  input: RawTensor;
  keyMask: RawMask | null;
}

/** A module with a decoder, which it runs step by step. */
export interface RawIncrementalDecoder<Arguments extends object = object, Result = unknown>
  extends RawLayer<Arguments, Result> {
  makeCache(given: RawCacheInput): RawDecoderCache;
  /** The next rows, [N,L,E] or [L,E]. */
  step(given: { target: RawTensor }, cache: RawDecoderCache): RawTensor;
}

/** The current rows of a batch of texts, or of an image. */
export interface RawRows {
  /** A copy of the current rows, [T, E]. */
  hidden(): Float32Array;
  /** [N, E]; `skipped`: tokens at each text's beginning that a mean or a maximum leaves out, null for none. */
  pool(
    pooling: 'mean' | 'cls' | 'last' | 'max' | 'mean_sqrt_len' | 'weighted_mean',
    skipped: Int32Array | null,
  ): Float32Array;
}

/** One batch of texts, or one image, being encoded by an `EncoderModel`. */
export interface RawEncoding extends RawRows {
  /** Runs layer `i`; weights of all texts one after the other, each [H, L_n, L_n], or null. */
  runLayer(i: number, headMask: Float32Array | null, returnWeights: boolean): Float32Array | null;
  /** Applies the final norm, if the model has one. */
  applyFinalNorm(): void;
  delete(): void;
}

/** `EncoderModelConfig` of the core, which has the defaults of absent options. */
export interface RawEncoderModelConfig {
  vocabSize: number;
  embedDim: number;
  /** Width of factored embedding tables; 0: embedDim, no projection. */
  embeddingDim?: number;
  numLayers: number;
  numHeads: number;
  /** Heads of keys and values. */
  keyValueHeads: number;
  /** Width of a head. */
  headDim: number;
  feedForwardDim: number;
  maxPositions: number;
  positionOffset: number;
  typeVocabSize: number;
  activation: string;
  eps: number;
  positions: 'absolute' | 'relative' | 'rotary' | 'alibi' | 'disentangled';
  relativeBuckets?: number;
  relativeDistance?: number;
  relativeNorm?: boolean;
  /** 'disentangled': learned absolute embeddings, too. */
  positionEmbeddings?: boolean;
  /** 'disentangled': the embeddings of distances have projections of their own in each layer. */
  positionProjections?: boolean;
  /** Width of a convolution over the embeddings, which is added to the first layer's output; 0: none. */
  convolution?: number;
  /** Required with a convolution. */
  convolutionActivation?: string;
  rotaryDim?: number;
  rotaryBase?: number;
  localRotaryBase?: number;
  rotaryScale?: number;
  /** -1: none */
  window?: number;
  /** For each layer, whether its attention is limited to the window; absent: no layer. */
  localLayers?: boolean[];
  causal?: boolean;
  /** 0: 1 / sqrt(width of a head) */
  attentionScale?: number;
  embeddingScale?: number;
  normFirst?: boolean;
  embeddingNorm?: boolean;
  finalNorm?: boolean;
  bias?: boolean;
  normBias?: boolean;
  rmsNorm?: boolean;
  normWeightOffset?: number;
  qkNorm?: boolean;
  /** The norms of queries and keys span all heads together. */
  jointQkNorm?: boolean;
  /** The attention's block is LN(x + LN'(x + MHA(x))). */
  nestedNorm?: boolean;
  outputNorms?: boolean;
  layerScale?: boolean;
  /** Images in place of texts: the side of a patch. `maxPositions` is then the number of rows of the position table. */
  patchSize?: number;
  /** A learned row before those of the patches. */
  classRow?: boolean;
  /** The number of learned rows between it and those of the patches. */
  registers?: number;
  gated?: boolean;
  gateSecond?: boolean;
  linear1Bias?: boolean;
  firstAttentionNorm?: boolean;
  sharedLayers?: boolean;
  /** The word table is kept in 4 bits. */
  int4Table?: boolean;
  int8: boolean;
}

export interface RawEncoderModel extends RawModule {
  /**
   * Embeds texts of `lengths` tokens each, concatenated; tokenTypes null: all 0; positions null: 0, 1, 2, ... from the model's offset; keyMask null: all tokens attend to all, or 0 and
   * -Infinity for tokens that none attends to, of texts of one length.
   */
  begin(
    ids: Int32Array,
    tokenTypes: Int32Array | null,
    positions: Int32Array | null,
    lengths: Int32Array,
    keyMask: Float32Array | null,
    sites: RawSites | null,
  ): RawEncoding;
  /**
   * The same for images, pixels [N, 3, height, width]. positions null: those of the model's table, for images of the checkpoint's size; angles [L, Dk / 2]: of the rotary positions of
   * an image's rows, or null.
   */
  beginImages(
    pixels: RawTensor,
    positions: RawTensor | null,
    angles: RawTensor | null,
    sites: RawSites | null,
  ): RawEncoding;
  /** x [rows, D] times the word table's transpose: [rows, V]. */
  wordLogits(x: RawTensor): RawTensor;
}

/** `VectorIndex` of the core. */
export interface RawVectorIndex {
  count(): number;
  /** `bytes`: the rows as they are stored; `factors`: one per row. */
  append(bytes: Uint8Array, factors: Float32Array): void;
  keep(rows: Uint32Array): void;
  rows(first: number, count: number): Uint8Array<ArrayBuffer>;
  /** queries [N,D], thresholds [N]. `hits` [N, topK, 2]: row and score, as a float's bits, of the first `counts[n]` hits of query n. */
  search(
    queries: Float32Array,
    options: { topK: number; thresholds: Float32Array; candidates: number; allowed: Uint32Array | null },
  ): { counts: Uint32Array; hits: Uint32Array };
  delete(): void;
}

type RawClass<Made, Options = object> = new (options: Options) => Made;

/** The formulas. */
export interface RawFunctions {
  /** Those with tensors as arguments: tensors, masks and options by name, every one present, as for `RawLayer`. */
  compute(name: 'attention', given: object): RawAttended;
  compute(name: 'softmax' | 'linear' | 'layerNorm' | 'dropout' | 'rotary', given: object): RawTensor;
  positionalEncoding(length: number, dim: number, base: number): RawTensor;
  /** -> [H,L,S] */
  alibi(numHeads: number, queries: number, keys: number): RawTensor;
  /** table [buckets,H] -> [H,L,S] */
  relativeBias(
    table: RawTensor,
    options: { queries: number; keys: number; maxDistance: number; bidirectional: boolean },
  ): RawTensor;
}

/** The layers' classes by the names that they have in the API, of which these are used elsewhere, too. Their options are those that the layer's schema has read, every one present. */
export interface RawLayers {
  Linear: RawClass<RawTensorLayer, { inFeatures: number; outFeatures: number; bias: boolean; activation: string }>;
  LayerNorm: RawClass<RawTensorLayer, { normalizedShape: number; eps: number; name?: string }>;
  Dropout: RawClass<RawTensorLayer>;
  FeedForward: RawClass<RawTensorLayer>;
  MultiHeadAttention: RawClass<RawLayer<object, RawAttended>>;
  /** Its call may have `angles` [L, Dk / 2]: rotates the queries and keys of row i by those of row i, pairs half-split. */
  EncoderLayer: RawClass<RawLayer<object, RawAttended>>;
}

/** What layers and functions call: the core, or in heed/train what records their calls. */
export interface Calls extends RawFunctions, RawLayers {}

/** The compiled module: functions on plain data, and classes that own parameters. Failures are thrown as HeedError. */
export interface Core extends Calls {
  EncoderModel: RawClass<RawEncoderModel, RawEncoderModelConfig>;
  VectorIndex: new (form: 'float32' | 'int8' | 'bits', width: number) => RawVectorIndex;

  /** In builds with threads: prepares for `count` threads besides the caller, or for none again. Returns the functions that initialize a thread, run it and report its failure, and the size of its stack. */
  startThreads?(count: number, cores: number, mayWait: boolean): number[];
  /** Prepares for thread i, in place of the one that there was. Returns the address of its stack. */
  addThread?(i: number): number;

  /** The SIMD128 builds then multiply 6 rows at a time instead of 5, which gives the same bits and is faster in JavaScriptCore. To be called before anything else. */
  useTallRowBlocks(): void;

  /** Compiler and version of the module. */
  compiler(): string;
  /** Size of the WebAssembly memory, in bytes. */
  memoryBytes(): number;
  /** Makes room for `bytes` in one block, by at most one growth of the memory; without effect where there is none. */
  reserveMemory(bytes: number): void;
  /** Forgets the calls in progress, which a trap has ended. */
  abandonCalls(): void;
}
