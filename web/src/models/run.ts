/**
 * Runs rows of tokens in pieces of bounded work, layer by layer, so that a call can be stopped and observed, and does
 * not block the thread for long.
 */
import { calling, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import type { SitePlan } from '../base/site-plan.js';
import type {
  RawEncoderModel,
  RawEncoderModelConfig,
  RawEncoding,
  RawRows,
  RawSites,
  RawTensor,
} from '../base/wasm/core.js';
import type { Pooling } from './families/steps.js';
import { allRows, type InputContext, positionsOf, type Row, type RowSteps } from './input.js';
import type { FetchRows } from './paged-embeddings.js';

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
function* piecesOf(
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
  small?: boolean | undefined;
  /** The number of the task whose adapters are added. Default: none. */
  adapters?: number | undefined;
  /** Another device that runs the layers; null: WebAssembly. */
  layers?: DeviceLayers | null | undefined;
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

/** A device other than WebAssembly, as `runRows` uses it. */
export interface RunDevice {
  /** The maximum number of rows of texts to run at a time; undefined: as in WebAssembly. */
  readonly maxRows: number | undefined;
  /**
   * Runs `run` with the GPU's layers, or with null to use WebAssembly's: if the GPU is slower for so few rows or, with
   * 'auto', if it fails or lacks a feature that the call needs.
   */
  attempt(input: 'text' | 'image', rows: number, run: (layers: DeviceLayers | null) => Promise<void>): Promise<void>;
}

/** Callbacks for one piece. They must copy what they need from an encoding. */
export interface PieceHooks {
  /** Called after the last layer. */
  use(encoding: RawRows): void;
  /** Called after the embeddings (-1) and after each layer. */
  onLayer?(layer: number, encoding: RawRows, weights: Float32Array | null): void;
  returnWeights?: boolean | undefined;
  /** Whether `onLayer` reads the hidden states. */
  returnStates?: boolean | undefined;
  /** Set if `use` only pools. */
  pooling?: { modes: readonly Pooling[]; skipped: number } | undefined;
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

/** The rows with the ids that the model reads in place of some tokens. */
export function replaced(rows: Row[], { replacedTokens }: InputContext): Row[] {
  if (!replacedTokens) return rows;
  return rows.map((row) => ({ ...row, ids: row.ids.map((id) => replacedTokens.get(id) ?? id) }));
}

/** Concatenates the tokens of rows. Types and positions are null if all have the default. */
export function batchOf(rows: readonly Row[], context: InputContext) {
  const { positionOffset } = context.config;
  const given = rows.map((row) => row.positions ?? positionsOf(row.ids, [...row.ids.keys()], context));
  const flat = (values: (row: Row) => number[]) => Int32Array.from(rows.flatMap(values));
  return {
    ids: flat((row) => row.ids),
    tokenTypes: rows.some((row) => row.types) ? flat(({ types, ids }) => types ?? ids.map(() => 0)) : null,
    positions: given.some((positions) => positions)
      ? Int32Array.from(given.flatMap((own, n) => own ?? rows[n]!.ids.map((_, i) => positionOffset + i)))
      : null,
    lengths: flat(({ ids }) => [ids.length]),
    keyMask: rows[0]?.keyMask ? Float32Array.from(rows.flatMap(({ keyMask }) => keyMask!)) : null,
  };
}

/** What running rows needs of a model. */
export interface RunContext {
  /** Returns the encoder. Throws once the model has been disposed of. */
  encoder: () => RawEncoderModel;
  /** Returns the device that runs the layers; null: WebAssembly. */
  device: () => RunDevice | null;
  input: InputContext;
  fetchRows: FetchRows | null;
}

/** What a call observes of its run. */
interface RunOptions {
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
  signal?: SignalLike | undefined;
}

/**
 * Runs the rows of `total` texts in pieces. `hooksOf` returns the hooks for a piece, whose first text is `first`.
 */
export async function runRows(
  { encoder, input, fetchRows, ...context }: RunContext,
  rows: RowSteps,
  total: number,
  { onProgress, signal }: RunOptions,
  options: PieceOptions,
  hooksOf: (piece: Row[], first: number) => PieceHooks,
): Promise<void> {
  const { config } = input;
  const { sites } = options;
  const device = context.device();
  let done = 0;
  const run = async (piece: Row[], layers: DeviceLayers | null) => {
    const read = replaced(piece, input);
    requireRows(read, input, done);
    await fetchRows?.(read, encoder, signal);
    const raw = sites?.raw(done, piece) ?? null;
    await runPiece(encoder, input, read, { ...options, layers }, hooksOf(piece, done), raw);
    done += piece.length;
    onProgress?.({ done, total });
  };
  const all = sites?.needsAll ? allRows(rows) : [];
  const budget = options.small || sites ? undefined : device?.maxRows;
  for (const piece of all.length > 0 ? [all] : piecesOf(rows, config, budget)) {
    await options.yieldToEventLoop();
    if (!piece) continue;
    if (!device) await run(piece, null);
    else {
      const tokens = piece.reduce((sum, { ids }) => sum + ids.length, 0);
      await device.attempt('text', tokens, async (layers) => {
        // Pieces for a GPU are larger than those for WebAssembly.
        const smaller = layers || all.length > 0 ? [piece] : piecesOf(piece, config);
        for (const part of smaller) if (part) await run(part, layers);
      });
    }
  }
}

/** Runs one piece. `model` throws once the model has been disposed of. */
function runPiece(
  model: () => RawEncoderModel,
  input: InputContext,
  piece: Row[],
  options: PieceOptions,
  hooks: PieceHooks,
  sites: RawSites | null,
): Promise<void> {
  const { ids, tokenTypes, positions, lengths, keyMask } = batchOf(piece, input);
  const begin = () => model().begin(ids, tokenTypes, positions, lengths, keyMask, sites, options.adapters ?? -1);
  return runLayers(begin, model, input.config.numLayers, options, hooks, { lengths, keyMask, angles: null, sites });
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
