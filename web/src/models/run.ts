/**
 * Runs rows of tokens in pieces of bounded work, layer by layer, so that a call can be stopped and observed, and does
 * not block the thread for long.
 */
import { calling, invalid } from '../base/error.js';
import type { SitePlan } from '../base/site-plan.js';
import type {
  RawEncoderModel,
  RawEncoderModelConfig,
  RawEncoding,
  RawRows,
  RawSites,
  RawTensor,
} from '../base/wasm/core.js';
import { concatenate } from '../io/files.js';
import type { Pooling } from './families/sentence-transformers.js';
import type { InputContext, Row, RowSteps } from './input.js';

/**
 * The number of tokens per piece. Large enough that reading a layer's weights, once per piece, takes a small fraction
 * of the time; small enough that a layer takes about 13 ms at 30 GFLOP/s and less than 50 ms at 10 GFLOP/s, which is
 * the delay for stopping a call.
 */
export function pieceTokens({ embedDim, numHeads, keyValueHeads, headDim, ...config }: RawEncoderModelConfig): number {
  const attention = 2 * (numHeads + keyValueHeads) * headDim;
  const flops = 2 * embedDim * (attention + (config.gated ? 3 : 2) * config.feedForwardDim);
  return Math.min(2048, Math.max(64, Math.round(0.4e9 / flops)));
}

/** Groups rows in order. A text longer than a piece is a piece by itself. null entries of `rows` are passed on. */
export function* piecesOf(
  rows: RowSteps,
  config: RawEncoderModelConfig,
  budget = pieceTokens(config),
): Generator<Row[] | null> {
  let piece: Row[] = [];
  let tokens = 0;
  for (const row of rows) {
    if (!row) {
      yield null;
      continue;
    }
    if (piece.length > 0 && tokens + row.ids.length > budget) {
      yield piece;
      piece = [];
      tokens = 0;
    }
    piece.push(row);
    tokens += row.ids.length;
  }
  if (piece.length > 0) yield piece;
}

export interface PieceOptions {
  /** Called before each layer. */
  yieldToEventLoop: () => Promise<void>;
  /** Factors on the heads' outputs, [layers][heads]. */
  headMask: Float32Array[] | null;
  /** The sites that the call reads and edits; null: none. */
  sites: SitePlan | null;
  /** Whether the results of each layer are retained, so that a GPU must not run many texts at a time. */
  small?: boolean;
  /** Another device that runs the layers; null: WebAssembly. */
  layers?: DeviceLayers | null;
}

/** The data of a batch that a device needs besides its rows: see `begin` and `beginImages` of RawEncoderModel. */
export interface DeviceBatch {
  lengths: Int32Array;
  keyMask: Float32Array | null;
  angles: RawTensor | null;
  /** The sites to read and edit. */
  sites: RawSites | null;
}

/** The layers of an encoder on a device other than WebAssembly. */
export interface DeviceLayers {
  /** Runs all layers on the embeddings that `begin` returns. */
  run(begin: () => RawEncoding, batch: DeviceBatch, options: PieceOptions, hooks: PieceHooks): Promise<void>;
}

/** Callbacks for one piece. They must copy what they need from an encoding. */
export interface PieceHooks {
  /** Called after the last layer. */
  use(encoding: RawRows): void;
  /** Called after the embeddings (-1) and after each layer. */
  onLayer?(layer: number, encoding: RawRows, weights: Float32Array | null): void;
  returnWeights?: boolean;
  /** Whether `onLayer` reads the hidden states. */
  returnStates?: boolean;
  /** Set if `use` only pools. */
  pooling?: { modes: readonly Pooling[]; skipped: number };
}

/**
 * Rejects texts with tokens that have no row in the model's table, such as added tokens of other modalities. `first`:
 * the number of the first text.
 */
export function requireRows(rows: readonly Row[], { config, tokenizer }: InputContext, first: number): void {
  const { vocabSize } = config;
  for (const [n, { ids }] of rows.entries()) {
    const id = ids.find((each) => each >= vocabSize);
    if (id === undefined) continue;
    const got =
      tokenizer && id < tokenizer.vocabSize ? `the token '${tokenizer.token(id)}', whose id is ${id}` : `${id}`;
    throw invalid(`texts[${first + n}]`, `tokens with ids below ${vocabSize}, the rows of the model's table`, got);
  }
}

/** Concatenates the tokens of rows. Types and positions are null if all have the default. */
export function batchOf(rows: readonly Row[], positionOffset: number) {
  const flat = (values: (row: Row) => number[]) => Int32Array.from(rows.flatMap(values));
  return {
    ids: flat((row) => row.ids),
    tokenTypes: rows.some((row) => row.types) ? flat(({ types, ids }) => types ?? ids.map(() => 0)) : null,
    positions: rows.some((row) => row.positions)
      ? flat(({ positions, ids }) => positions ?? ids.map((_, i) => positionOffset + i))
      : null,
    lengths: flat(({ ids }) => [ids.length]),
    keyMask: rows[0]?.keyMask ? Float32Array.from(rows.flatMap(({ keyMask }) => keyMask!)) : null,
  };
}

/**
 * The hidden states [tokens, E] of the tokens whose id is `id`. Calls `found` with the text and the position of each.
 */
export function rowsOfToken(
  hidden: Float32Array,
  piece: readonly Row[],
  id: number | undefined,
  embedDim: number,
  found: (text: number, token: number) => void,
): RawTensor {
  const picked: Float32Array[] = [];
  let at = 0;
  piece.forEach(({ ids }, n) => {
    ids.forEach((each, i) => {
      if (each !== id) return;
      found(n, i);
      picked.push(hidden.subarray((at + i) * embedDim, (at + i + 1) * embedDim));
    });
    at += ids.length;
  });
  return { data: concatenate(Float32Array, picked), shape: [picked.length, embedDim] };
}

/**
 * Pools a piece's `count` texts to [count, modes * E]. `skipped`: the number of tokens at each text's beginning that
 * means and maxima leave out.
 */
export function poolRows(
  encoding: RawRows,
  count: number,
  width: number,
  pooling: readonly Pooling[],
  skipped = 0,
): RawTensor {
  const skips = skipped > 0 ? new Int32Array(count).fill(skipped) : null;
  const parts = pooling.map((mode) => encoding.pool(mode, skips));
  if (parts.length === 1) return { data: parts[0]!, shape: [count, width] };
  const data = new Float32Array(count * parts.length * width);
  parts.forEach((part, i) => {
    for (let n = 0; n < count; n++) data.set(part.subarray(n * width, (n + 1) * width), (n * parts.length + i) * width);
  });
  return { data, shape: [count, parts.length * width] };
}

/** Runs one piece. `model` throws once the model has been disposed of. */
export function runPiece(
  model: () => RawEncoderModel,
  { numLayers, positionOffset }: RawEncoderModelConfig,
  piece: Row[],
  options: PieceOptions,
  hooks: PieceHooks,
  sites: RawSites | null,
): Promise<void> {
  const { ids, tokenTypes, positions, lengths, keyMask } = batchOf(piece, positionOffset);
  const begin = () => model().begin(ids, tokenTypes, positions, lengths, keyMask, sites);
  return runLayers(begin, model, numLayers, options, hooks, { lengths, keyMask, angles: null, sites });
}

/**
 * Runs the layers on the embeddings that `begin` returns, skipping those that need not run. `alive` is called before
 * each layer and after the last; it throws once the model has been disposed of.
 */
export async function runLayers(
  begin: () => RawEncoding,
  alive: () => void,
  numLayers: number,
  options: PieceOptions,
  hooks: PieceHooks,
  batch: DeviceBatch,
): Promise<void> {
  const { yieldToEventLoop, headMask, sites, layers } = options;
  if (layers) {
    await yieldToEventLoop();
    return layers.run(begin, batch, options, hooks);
  }
  const { use, onLayer, returnWeights = false } = hooks;
  const encoding = calling('model', begin);
  try {
    onLayer?.(-1, encoding, null);
    for (let i = sites?.firstLayer ?? 0; i < numLayers; i++) {
      await yieldToEventLoop();
      alive();
      calling('model', () => {
        const weights = encoding.runLayer(i, headMask?.[i] ?? null, returnWeights);
        if (i === numLayers - 1) encoding.applyFinalNorm();
        onLayer?.(i, encoding, weights);
      });
    }
    if (numLayers === 0) encoding.applyFinalNorm();
    alive(); // after the last layer, too, because its edits may have disposed of the model
    calling('model', () => use(encoding));
  } finally {
    encoding.delete();
  }
}
