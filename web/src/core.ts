/**
 * The compiled module as the TypeScript API sees it. These types are internal; only `module.ts` makes a `Core`.
 *
 * Data crosses as plain arrays, which the bindings copy: JavaScript never holds an address or view of WebAssembly memory.
 * Notation: N sequences, L queries, S keys, E width, H heads, T rows of all sequences together.
 */

/** fp32, row-major. Results are fresh arrays that JavaScript owns. */
export interface RawTensor {
  data: Float32Array;
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

/** Options of one attention call; every field is present. */
export interface RawAttentionOptions {
  /** broadcasts to [N,H,L,S] */
  mask: RawMask | null;
  causal: boolean;
  /** null: none */
  window: number | null;
  returnWeights: boolean;
}

/** Options of `attention()`; the mask broadcasts to [...,L,S]. */
export interface RawFunctionAttentionOptions extends RawAttentionOptions {
  /** null: 1 / sqrt(Dk) */
  scale: number | null;
  dropout: { p: number; seed: number } | null;
}

/** Options of a layer's call. */
export interface RawLayerAttentionOptions extends RawAttentionOptions {
  /** [N,S] */
  keyMask: RawMask | null;
  /** [H] or [N,H]; null: all 1 */
  headMask: RawTensor | null;
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
  delete(): void;
}

export interface RawTensorLayer extends RawModule {
  forward(x: RawTensor): RawTensor;
}

/** Rotary embedding of the projected queries and keys. */
export interface RawRotaryOptions {
  /** 0: the whole head */
  dim: number;
  base: number;
  pairing: 'half-split' | 'interleaved';
}

export interface RawMultiHeadAttention extends RawModule {
  /** key null: the query; value null: the key. */
  forward(
    query: RawTensor,
    key: RawTensor | null,
    value: RawTensor | null,
    options: RawLayerAttentionOptions & { averageWeights: boolean },
  ): RawAttended;
}

export interface RawEncoderLayer extends RawModule {
  /** `angles` [L, Dk / 2]: rotates the queries and keys of row i by those of row i, pairs half-split. */
  forward(x: RawTensor, options: RawLayerAttentionOptions & { angles?: RawTensor | null }): RawAttended;
}

export interface RawEncoder extends RawModule {
  /** `headMask` is [layers, maximum number of heads] here; weights one tensor per layer, or null. */
  forward(x: RawTensor, options: RawLayerAttentionOptions): { output: RawTensor; weights: RawTensor[] | null };
}

/** Masks of a decoder call. */
export interface RawDecoderCallOptions {
  mask: RawMask | null;
  keyMask: RawMask | null;
  memoryMask: RawMask | null;
  memoryKeyMask: RawMask | null;
  causal: boolean;
  returnWeights: boolean;
}

/** `weights`: one entry per layer. */
export interface RawDecoded {
  output: RawTensor;
  weights: { self: RawTensor; memory: RawTensor }[] | null;
}

export interface RawDecoderCache {
  /** Rows seen so far. */
  length(): number;
  copy(): RawDecoderCache;
  delete(): void;
}

/** A module with a decoder, which it runs step by step. */
export interface RawIncrementalDecoder extends RawModule {
  /** A decoder's memory or a Transformer's source, [N,S,E] or [S,E], and its key mask, [N,S]. */
  makeCache(memory: RawTensor, keyMask: RawMask | null): RawDecoderCache;
  /** The next rows, [N,L,E] or [L,E]. */
  step(target: RawTensor, cache: RawDecoderCache): RawTensor;
}

export interface RawDecoder extends RawIncrementalDecoder {
  forward(target: RawTensor, memory: RawTensor, options: RawDecoderCallOptions): RawDecoded;
}

export interface RawTransformer extends RawIncrementalDecoder {
  forward(
    source: RawTensor,
    target: RawTensor,
    options: { source: RawLayerAttentionOptions; target: RawDecoderCallOptions },
  ): RawDecoded & { memory: RawTensor; encoderWeights: RawTensor[] | null };
}

/** One batch of texts being encoded by an `EncoderModel`. */
export interface RawEncoding {
  /** Runs layer `i`; weights of all texts one after the other, each [H, L_n, L_n], or null. */
  runLayer(i: number, headMask: Float32Array | null, returnWeights: boolean): Float32Array | null;
  /** What layer `i` would multiply, one after the other: queries [T, numHeads * headDim], keys and values [T, keyValueHeads * headDim]. */
  project(i: number): Float32Array;
  /** Applies the final norm, if the model has one. */
  applyFinalNorm(): void;
  /** A copy of the current rows, [T, E]. */
  hidden(): Float32Array;
  /** [N, E]; `skipped`: tokens at each text's beginning that a mean or a maximum leaves out, null for none. */
  pool(
    pooling: 'mean' | 'cls' | 'last' | 'max' | 'mean_sqrt_len' | 'weighted_mean',
    skipped: Int32Array | null,
  ): Float32Array;
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
  ): RawEncoding;
  /** x [rows, D] times the word table's transpose: [rows, V]. */
  wordLogits(x: RawTensor): RawTensor;
}

type RawClass<Made, Options = object> = new (options: Options) => Made;

/** The compiled module: functions on plain data, and classes that own parameters. Failures are thrown as HeedError. */
export interface Core {
  attention(query: RawTensor, key: RawTensor, value: RawTensor, options: RawFunctionAttentionOptions): RawAttended;
  softmax(x: RawTensor): RawTensor;
  linear(x: RawTensor, options: { weight: RawTensor; bias: RawTensor | null; activation: string }): RawTensor;
  layerNorm(x: RawTensor, options: { weight: RawTensor | null; bias: RawTensor | null; eps: number }): RawTensor;
  dropout(x: RawTensor, options: { p: number; seed: number; scaling: 'inverted' | 'none' }): RawTensor;
  positionalEncoding(length: number, dim: number, base: number): RawTensor;
  /** x [...,L,D] */
  rotary(x: RawTensor, options: RawRotaryOptions & { firstPosition: number }): RawTensor;
  /** -> [H,L,S] */
  alibi(numHeads: number, queries: number, keys: number): RawTensor;
  /** table [buckets,H] -> [H,L,S] */
  relativeBias(
    table: RawTensor,
    options: { queries: number; keys: number; maxDistance: number; bidirectional: boolean },
  ): RawTensor;

  // The options of a layer are those that its schema has read, every one present.
  Linear: RawClass<RawTensorLayer, { inFeatures: number; outFeatures: number; bias: boolean; activation: string }>;
  LayerNorm: RawClass<RawTensorLayer, { normalizedShape: number; eps: number; name?: string }>;
  BatchNorm: RawClass<RawTensorLayer>;
  Dropout: RawClass<RawTensorLayer>;
  PositionalEncoding: RawClass<RawTensorLayer>;
  FeedForward: RawClass<RawTensorLayer>;
  MultiHeadAttention: RawClass<RawMultiHeadAttention>;
  EncoderLayer: RawClass<RawEncoderLayer>;
  /** `heads`: the number of heads of each layer if they differ, as after pruning, or null. */
  Encoder: RawClass<RawEncoder>;
  /** A decoder of one layer, whose parameters have no prefix `layers.0.`. */
  DecoderLayer: RawClass<RawDecoder>;
  Decoder: RawClass<RawDecoder>;
  Transformer: RawClass<RawTransformer>;
  EncoderModel: RawClass<RawEncoderModel, RawEncoderModelConfig>;

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
}
