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

export type RawAttended = { output: RawTensor; weights: RawTensor | null };

/** Options of one attention call; every field is present. */
export interface RawAttentionOptions {
  /** broadcasts to [N,H,L,S] */
  mask: RawMask | null;
  /** [N,S] */
  keyMask: RawMask | null;
  causal: boolean;
  /** null: none */
  window: number | null;
  /** null: 1 / sqrt(Dk) */
  scale: number | null;
  /** [H] or [N,H]; null: all 1 */
  headMask: RawTensor | null;
  returnWeights: boolean;
}

/** A module that owns parameters. */
export interface RawModule {
  /** PyTorch's names and shapes, in PyTorch's order. */
  parameters(): { name: string; shape: number[] }[];
  readParameter(index: number): Float32Array;
  /** Writes rows [firstRow, firstRow + rows) of the parameter; `bytes` little-endian of `dtype`; `scales` one per row for I8, else null. */
  writeParameter(index: number, firstRow: number, bytes: Uint8Array, dtype: 'F32' | 'F16' | 'BF16' | 'I8', scales: Float32Array | null): void;
  setTraining(training: boolean): void;
  delete(): void;
}

/** One batch of texts on its way through an `EncoderModel`. */
export interface RawEncoding {
  /** Runs layer `i`; weights of all texts one after the other, each [H, L_n, L_n], or null. */
  runLayer(i: number, headScale: Float32Array | null, returnWeights: boolean): Float32Array | null;
  /** The final norm, where the model has one. */
  finish(): void;
  /** A copy of the current rows, [T, E]. */
  hidden(): Float32Array;
  /** [N, E] */
  pool(pooling: 'mean' | 'cls' | 'last' | 'max', normalize: boolean): Float32Array;
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
