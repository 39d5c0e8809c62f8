/**
 * What the compiled module offers to the face. Nothing outside `web/src` sees these types; only `module.ts` makes a `Core`.
 *
 * Data crosses as plain arrays: the bindings copy inputs in and results out, so no heap address and no view of the heap is ever seen here.
 * Letters: N sequences, L queries, S keys, E width, H heads, T rows of all sequences together.
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

/** Of the function; the mask broadcasts to [...,L,S]. */
export interface RawFunctionAttentionOptions extends RawAttentionOptions {
  /** null: 1 / sqrt(Dk) */
  scale: number | null;
  dropout: { p: number; seed: number } | null;
}

/** Of the layers. */
export interface RawLayerAttentionOptions extends RawAttentionOptions {
  /** [N,S] */
  keyMask: RawMask | null;
  /** [H] or [N,H]; null: all 1 */
  headMask: RawTensor | null;
}

/** A module that owns parameters. */
export interface RawModule {
  /** PyTorch's names and shapes, in PyTorch's order. */
  parameters(): { name: string; shape: number[] }[];
  readParameter(index: number): Float32Array;
  /** Writes rows [firstRow, firstRow + rows) of the parameter; `bytes` little-endian of `dtype`; `scales` one per row for I8, else null. */
  writeParameter(
    index: number,
    firstRow: number,
    bytes: Uint8Array,
    dtype: 'F32' | 'F16' | 'BF16' | 'I8',
    scales: Float32Array | null,
  ): void;
  setTraining(training: boolean): void;
  /** Starts the draws of its dropout anew. */
  seed(seed: number): void;
  /** Gives its parameters the values that PyTorch's module of the same name starts with. */
  initialize(seed: number): void;
  delete(): void;
}

export interface RawTensorLayer extends RawModule {
  forward(x: RawTensor): RawTensor;
}

export interface RawLinearOptions {
  inFeatures: number;
  outFeatures: number;
  bias: boolean;
  activation: string;
}

export interface RawLayerNormOptions {
  normalizedShape: number;
  eps: number;
}

export interface RawBatchNormOptions {
  numFeatures: number;
  eps: number;
}

export interface RawDropoutOptions {
  p: number;
  scaling: 'inverted' | 'none';
}

export interface RawPositionalEncodingOptions {
  embedDim: number;
  maxLength: number;
  base: number;
  mode: 'add' | 'concat';
  learned: boolean;
}

export interface RawFeedForwardOptions {
  embedDim: number;
  feedForwardDim: number;
  activation: string;
  dropout: number;
  bias: boolean;
  gated: boolean;
}

export interface RawMultiHeadAttentionOptions {
  embedDim: number;
  numHeads: number;
  /** 0: embedDim / numHeads */
  keyDim: number;
  valueDim: number;
  /** 0: embedDim */
  keyInputDim: number;
  valueInputDim: number;
  bias: boolean;
  activation: string;
  dropout: number;
  rotary: RawRotaryOptions | null;
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

export interface RawEncoderLayerOptions {
  embedDim: number;
  numHeads: number;
  /** 0: embedDim / numHeads */
  keyDim: number;
  valueDim: number;
  feedForwardDim: number;
  activation: string;
  normFirst: boolean;
  eps: number;
  dropout: number;
  bias: boolean;
  gated: boolean;
  rotary: RawRotaryOptions | null;
}

export interface RawEncoderLayer extends RawModule {
  forward(x: RawTensor, options: RawLayerAttentionOptions): RawAttended;
}

export interface RawStackOptions extends RawEncoderLayerOptions {
  numLayers: number;
  finalNorm: boolean;
}

export interface RawEncoderOptions extends RawStackOptions {
  /** Heads of each layer where they differ, as after pruning; null: numHeads in all. */
  heads: readonly number[] | null;
}

export interface RawEncoder extends RawModule {
  /** `headMask` is [layers, most heads of a layer] here; weights one tensor a layer, or null. */
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

/** One entry a layer. */
export interface RawDecoded {
  output: RawTensor;
  weights: { self: RawTensor; memory: RawTensor }[] | null;
}

export interface RawDecoderCache {
  /** Rows seen so far. */
  length(): number;
  delete(): void;
}

/** Decodes step by step. */
export interface RawStepper extends RawModule {
  /** A decoder's memory or a Transformer's source, [N,S,E] or [S,E], and its real rows, [N,S]. */
  makeCache(memory: RawTensor, keyMask: RawMask | null): RawDecoderCache;
  /** The next rows, [N,L,E] or [L,E]. */
  step(target: RawTensor, cache: RawDecoderCache): RawTensor;
}

export interface RawDecoder extends RawStepper {
  forward(target: RawTensor, memory: RawTensor, options: RawDecoderCallOptions): RawDecoded;
}

export interface RawTransformerOptions extends RawEncoderLayerOptions {
  numEncoderLayers: number;
  numDecoderLayers: number;
}

export interface RawTransformer extends RawStepper {
  forward(
    source: RawTensor,
    target: RawTensor,
    options: { source: RawLayerAttentionOptions; target: RawDecoderCallOptions },
  ): RawDecoded & { memory: RawTensor; encoderWeights: RawTensor[] | null };
}

/** One batch of texts on its way through an `EncoderModel`. */
export interface RawEncoding {
  /** Runs layer `i`; weights of all texts one after the other, each [H, L_n, L_n], or null. */
  runLayer(i: number, headScale: Float32Array | null, returnWeights: boolean): Float32Array | null;
  /** The final norm, where the model has one. */
  finish(): void;
  /** A copy of the current rows, [T, E]. */
  hidden(): Float32Array;
  /** [N, E]; `skipped`: tokens at each text's beginning that a mean or a maximum leaves out, null for none. */
  pool(
    pooling: 'mean' | 'cls' | 'last' | 'max' | 'mean_sqrt_len' | 'weighted_mean',
    skipped: Int32Array | null,
  ): Float32Array;
  delete(): void;
}

/** The published encoder architectures as options of one stack: `EncoderModelConfig` of the core, every field present. */
export interface RawEncoderModelConfig {
  vocabSize: number;
  embedDim: number;
  /** Width of the embedding tables where factored; 0: embedDim, no projection. */
  embeddingDim: number;
  numLayers: number;
  numHeads: number;
  feedForwardDim: number;
  maxPositions: number;
  positionOffset: number;
  typeVocabSize: number;
  activation: string;
  eps: number;
  positions: 'absolute' | 'relative' | 'rotary';
  relativeBuckets: number;
  relativeDistance: number;
  rotaryDim: number;
  rotaryBase: number;
  localRotaryBase: number;
  /** -1: none */
  window: number;
  globalEvery: number;
  normFirst: boolean;
  embeddingNorm: boolean;
  finalNorm: boolean;
  bias: boolean;
  normBias: boolean;
  gated: boolean;
  firstAttentionNorm: boolean;
  sharedLayers: boolean;
  int8: boolean;
}

export interface RawEncoderModel extends RawModule {
  /** Embeds texts of `lengths` tokens each, concatenated; tokenTypes null: all 0; positions null: 0, 1, 2, ... from the model's offset. */
  begin(ids: Int32Array, tokenTypes: Int32Array | null, positions: Int32Array | null, lengths: Int32Array): RawEncoding;
  /** x [rows, D] times the word table's transpose: [rows, V]. */
  wordLogits(x: RawTensor): RawTensor;
}

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

  Linear: new (options: RawLinearOptions) => RawTensorLayer;
  LayerNorm: new (options: RawLayerNormOptions) => RawTensorLayer;
  BatchNorm: new (options: RawBatchNormOptions) => RawTensorLayer;
  Dropout: new (options: RawDropoutOptions) => RawTensorLayer;
  PositionalEncoding: new (options: RawPositionalEncodingOptions) => RawTensorLayer;
  FeedForward: new (options: RawFeedForwardOptions) => RawTensorLayer;
  MultiHeadAttention: new (options: RawMultiHeadAttentionOptions) => RawMultiHeadAttention;
  EncoderLayer: new (options: RawEncoderLayerOptions) => RawEncoderLayer;
  Encoder: new (options: RawEncoderOptions) => RawEncoder;
  /** A decoder of one layer whose parameters have no `layers.0.` before them. */
  DecoderLayer: new (
    options: RawEncoderLayerOptions,
  ) => RawDecoder;
  Decoder: new (options: RawStackOptions) => RawDecoder;
  Transformer: new (options: RawTransformerOptions) => RawTransformer;
  EncoderModel: new (config: RawEncoderModelConfig) => RawEncoderModel;

  /** In builds with threads: prepares for `count` threads besides the caller, or for none again. Returns the functions that initialize a thread, run it and report its failure, and the size of its stack. */
  startThreads?(count: number, cores: number, mayWait: boolean): number[];
  /** Prepares for thread i, in place of the one that there was. Returns the address of its stack. */
  addThread?(i: number): number;

  /** Compiler and version of the module. */
  compiler(): string;
  /** Size of the WebAssembly memory, in bytes. */
  memoryBytes(): number;
}
