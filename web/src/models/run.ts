/** Runs rows of tokens through the core in pieces of bounded work, layer by layer, so that a call can be stopped and observed, and does not block the thread for long. */

import { calling, invalid } from '../base/error.js';
import type { SitePlan } from '../base/sites.js';
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
 * Tokens per piece: enough that reading a layer's weights, once per piece, takes a small part of the time; few enough that one layer takes some 13 ms at 30 GFLOP/s, and less
 * than 50 ms at 10 GFLOP/s, which is how fast a call can be stopped.
 */
export function pieceTokens({ embedDim, numHeads, keyValueHeads, headDim, ...config }: RawEncoderModelConfig): number {
  const attention = 2 * (numHeads + keyValueHeads) * headDim;
  const flops = 2 * embedDim * (attention + (config.gated ? 3 : 2) * config.feedForwardDim);
  return Math.min(2048, Math.max(64, Math.round(0.4e9 / flops)));
}

/** Groups rows in order; a text that is longer than a piece is a piece by itself. null: as in the rows. */
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
  /** [layers][heads] factors. */
  headMask: Float32Array[] | null;
  /** What the call reads and edits; null: nothing. */
  sites: SitePlan | null;
  /** Whether the results of each layer are kept, so that a GPU must not run many texts at a time. */
  small?: boolean;
  /** Runs the layers in place of the core. */
  layers?: DeviceLayers | null;
}

/** What a device needs to know of a batch besides its rows: as for `begin`, and `beginImage`. */
export interface DeviceBatch {
  lengths: Int32Array;
  keyMask: Float32Array | null;
  angles: RawTensor | null;
  /** What is read and edited. */
  sites: RawSites | null;
}

/** The layers of an encoder on another device than the core's. */
export interface DeviceLayers {
  /** Runs all layers on what `begin` embeds. */
  run(begin: () => RawEncoding, batch: DeviceBatch, options: PieceOptions, hooks: PieceHooks): Promise<void>;
}

/** What is done with one piece. The hooks must copy what they need from an encoding. */
export interface PieceHooks {
  /** After the last layer. */
  use(encoding: RawRows): void;
  /** After the embeddings (-1) and after each layer. */
  onLayer?(layer: number, encoding: RawRows, weights: Float32Array | null): void;
  returnWeights?: boolean;
  /** Whether `onLayer` reads the rows. */
  returnStates?: boolean;
  /** Of hooks whose `use` only pools. */
  pooling?: { modes: readonly Pooling[]; skipped: number };
}

/** Refuses texts with tokens that the model's table has no row for, such as added tokens of other modalities. `first`: the number of the first text. */
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

/** The tokens of rows, one row after the other; types and positions are null if they are all the default. */
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

/** The hidden rows [tokens, E] of the tokens whose id is `id`; `found` is called with the text and the position of each. */
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

/** The vectors of a piece's `count` texts, [count, modes * E]; `skipped`: tokens at each text's beginning that means and maxima leave out. */
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

/** Runs the layers on what `begin` embeds, those left out that need not run. `alive` is called before each layer and after the last, and throws once the model has been disposed of. */
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
    alive(); // also after the last layer, whose edits may have disposed of the model
    calling('model', () => use(encoding));
  } finally {
    encoding.delete();
  }
}
