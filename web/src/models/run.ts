/** Rows of tokens through the core: in pieces of bounded work, layer by layer, so that a call can be stopped, watched, and does not freeze what else runs. */
import type { RawEncoderModel, RawEncoderModelConfig, RawEncoding } from '../core.js';
import { calling } from '../error.js';
import type { SignalLike } from '../platform.js';
import type { Row } from './input.js';

/** Lets the event loop turn, so that timers, input and aborts get their chance, when it has waited long enough. */
export class Breather {
  private last = performance.now();

  constructor(private readonly signal: SignalLike | undefined) {
    signal?.throwIfAborted();
  }

  async breathe(): Promise<void> {
    if (performance.now() - this.last >= BREATH_MS) {
      await turn();
      this.last = performance.now();
    }
    this.signal?.throwIfAborted();
  }
}

const BREATH_MS = 20;

declare const setImmediate: ((callback: () => void) => void) | undefined;

/** One turn of the event loop; a timer would wait 4 ms in browsers. */
function turn(): Promise<void> {
  if (typeof setImmediate === 'function') return new Promise((resolve) => setImmediate(resolve));
  return new Promise((resolve) => {
    if (typeof MessageChannel !== 'function') return void setTimeout(resolve);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/**
 * Tokens of one piece: enough that a layer's weights, read once a piece, are worth their way from memory, few enough that one layer of it takes some 13 ms
 * at 30 GFLOP/s, and less than 50 at 10: the grain at which a call stops.
 */
function pieceTokens(config: RawEncoderModelConfig): number {
  const flops = 2 * (4 * config.embedDim ** 2 + (config.gated ? 3 : 2) * config.embedDim * config.feedForwardDim);
  return Math.min(2048, Math.max(64, Math.round(0.4e9 / flops)));
}

/** Groups rows in order; a text longer than a piece is one by itself. */
export function* piecesOf(rows: Iterable<Row>, config: RawEncoderModelConfig): Generator<Row[]> {
  const budget = pieceTokens(config);
  let piece: Row[] = [];
  let tokens = 0;
  for (const row of rows) {
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
  breather: Breather;
  /** [layers][heads] factors. */
  headMask: Float32Array[] | null;
  returnWeights: boolean;
  /** After the embeddings (-1) and after each layer. */
  onLayer?: (layer: number, encoding: RawEncoding, weights: Float32Array | null) => void;
}

/** Runs one piece and hands its encoding to `use`, which copies out what it needs. `model` is asked for anew at each step, as it may be disposed of in between. */
export async function runPiece<T>(
  model: () => RawEncoderModel,
  { numLayers, positionOffset }: RawEncoderModelConfig,
  piece: Row[],
  options: PieceOptions,
  use: (encoding: RawEncoding) => T,
): Promise<T> {
  const { breather, headMask, returnWeights, onLayer } = options;
  const ids = Int32Array.from(piece.flatMap((row) => row.ids));
  const types = piece.some((row) => row.types)
    ? Int32Array.from(piece.flatMap((row) => row.types ?? row.ids.map(() => 0)))
    : null;
  const positions = piece.some((row) => row.positions)
    ? Int32Array.from(piece.flatMap((row) => row.positions ?? row.ids.map((_, i) => positionOffset + i)))
    : null;
  const encoding = calling('model', () =>
    model().begin(
      ids,
      types,
      positions,
      Int32Array.from(piece, (row) => row.ids.length),
    ),
  );
  try {
    onLayer?.(-1, encoding, null);
    for (let i = 0; i < numLayers; i++) {
      await breather.breathe();
      model();
      calling('model', () => {
        const weights = encoding.runLayer(i, headMask?.[i] ?? null, returnWeights);
        if (i === numLayers - 1) encoding.finish();
        onLayer?.(i, encoding, weights);
      });
    }
    if (numLayers === 0) encoding.finish();
    return calling('model', () => use(encoding));
  } finally {
    encoding.delete();
  }
}
