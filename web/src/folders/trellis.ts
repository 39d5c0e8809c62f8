/**
 * Encodes matrices in 3 or 4 bits, as decoded by cpp/src/core/trellis.h: trellis-coded quantization (Marcellin, Fischer
 * 1990, doi:10.1109/26.46532) with a bit-shift trellis and computed levels (Tseng et al. 2024, arXiv:2406.11235). The
 * search among the paths of the trellis is the WebAssembly module's.
 */
import type { Core } from '../base/wasm/core.js';
import { type TrellisBits, trellisPlaneBytes } from '../io/safetensors.js';
import { TRELLIS_LEVELS } from '../io/trellis.js';
import type { Feedback } from './feedback.js';
import { largestOf, roundedBrainFloat } from './quantize-rows.js';

/** A matrix as it is stored. */
export interface TrellisMatrix {
  /** [rows, bits, bytes of a plane]. */
  data: Uint8Array;
  /** One per row. */
  scales: Float32Array;
  /** One per column. */
  columnScales: Float32Array;
  /** Row, column and value of each weight that is stored as it is. */
  outliers: Float32Array;
}

const TOP = TRELLIS_LEVELS.reduce((max, level) => Math.max(max, level), 0);
const LEVEL_RMS = Math.sqrt(TRELLIS_LEVELS.reduce((sum, level) => sum + level * level, 0) / TRELLIS_LEVELS.length);

/**
 * The standard deviation of the levels, relative to that of the weights, with about the least squared error for normally
 * distributed weights. Values beyond the largest level, of 3.45 standard deviations, are clipped.
 */
const SPREAD = { 3: 1.08, 4: 1.12 };

/** Weights of a matrix beyond this many root mean squares of the others are outliers. */
const OUTLIER = 4.5;

interface Run {
  core: Core;
  bits: TrellisBits;
  /** For messages. */
  tensor: string;
  /** Yields to the event loop from time to time. */
  pause: () => Promise<void>;
}

/**
 * Encodes an embedding table, in which each row is a sequence of its own. Rows with weights beyond the largest level have
 * the best of three scales: frequent tokens, such as [CLS] and punctuation, have such rows.
 */
export async function trellisRows(values: Float32Array, width: number, run: Run): Promise<TrellisMatrix> {
  const matrix = new Encoder(values, width, run);
  for (let r = 0; r < matrix.rows; r++) {
    await run.pause();
    const targets = Float32Array.from({ length: width }, (_, c) => matrix.weight(r, c));
    const scale = matrix.scales[r]!;
    const excess =
      targets.reduce((max, weight, c) => Math.max(max, Math.abs(weight) / (matrix.step(r, c) || 1)), 0) / TOP;
    let best = { error: Infinity, scale, states: new Uint16Array() as Uint16Array };
    for (const factor of excess > 1 ? [1, Math.sqrt(excess), excess] : [1]) {
      matrix.scales[r] = roundedBrainFloat(scale * factor);
      const steps = targets.map((_, c) => matrix.step(r, c));
      const states = run.core.trellisSearch(run.bits, width, targets, steps);
      const error = targets.reduce(
        (sum, weight, c) => sum + (weight - steps[c]! * TRELLIS_LEVELS[states[c]!]!) ** 2,
        0,
      );
      if (error < best.error) best = { error, scale: matrix.scales[r]!, states };
    }
    matrix.scales[r] = best.scale;
    best.states.forEach((state, c) => {
      matrix.put(r, c, state);
    });
  }
  return matrix;
}

/**
 * Encodes a matrix, in which each column is a sequence. With `feedback`, the error of a column is compensated by the
 * columns that are encoded after it (GPTQ: Frantar et al. 2022, arXiv:2210.17323), in the order of `feedback`.
 */
export async function trellisColumns(
  values: Float32Array,
  width: number,
  feedback: Feedback | null,
  run: Run,
): Promise<TrellisMatrix> {
  const matrix = new Encoder(values, width, run, outlierCount(values.length / width, width));
  const { rows } = matrix;
  const errors: Float32Array[] = [];
  for (let t = 0; t < width; t++) {
    await run.pause();
    const column = feedback?.order[t] ?? t;
    const weights = Float64Array.from({ length: rows }, (_, r) => matrix.weight(r, column));
    const target = weights.slice();
    const factors = feedback?.factors(t);
    if (factors) for (let i = 0; i < t; i++) addScaled(target, errors[i]!, factors[i]!);
    matrix.setColumnScale(column, target);
    const isOutlier = (r: number) => matrix.isOutlier(r, column);
    const steps = Float32Array.from(target, (_, r) => (isOutlier(r) ? 0 : matrix.step(r, column)));
    const states = run.core.trellisSearch(run.bits, rows, Float32Array.from(target), steps);
    const error = new Float32Array(rows);
    for (let r = 0; r < rows; r++) {
      const value = isOutlier(r) ? weights[r]! : steps[r]! * TRELLIS_LEVELS[states[r]!]!;
      error[r] = weights[r]! - value;
      matrix.put(r, column, states[r]!);
    }
    errors.push(error);
  }
  return matrix;
}

function addScaled(to: Float64Array, from: Float32Array, factor: number): void {
  for (let r = 0; r < to.length; r++) to[r]! += factor * from[r]!;
}

class Encoder implements TrellisMatrix {
  readonly data: Uint8Array;
  readonly scales: Float32Array;
  readonly columnScales: Float32Array;
  readonly outliers: Float32Array;
  readonly rows: number;
  readonly #values: Float32Array;
  readonly #width: number;
  readonly #bits: TrellisBits;
  /** Weights are searched relative to their root mean square, so that squared errors fit into fp32. */
  readonly #unit: number;
  /** The spread of a weight in these units, divided by its scale. */
  readonly #factor: number;

  readonly #outliers: ReadonlySet<number>;

  constructor(values: Float32Array, width: number, { bits, tensor }: Run, outliers = 0) {
    this.rows = values.length / width;
    this.#values = values;
    this.#width = width;
    this.#bits = bits;
    this.data = new Uint8Array(this.rows * bits * trellisPlaneBytes(width));
    const { rows, columns, unit } = spreads(values, width, tensor);
    this.#unit = unit;
    const factor = SPREAD[bits] / LEVEL_RMS;
    this.#factor = unit * factor;
    this.scales = Float32Array.from(rows, (spread) => roundedBrainFloat(spread * factor));
    this.columnScales = Float32Array.from(columns, roundedBrainFloat);
    const positions = outliersOf(values, rows, columns, outliers).sort((a, b) => a - b);
    this.#outliers = new Set(positions);
    this.outliers = Float32Array.from(positions.flatMap((at) => [Math.floor(at / width), at % width, values[at]!]));
  }

  weight(row: number, column: number): number {
    return this.#values[row * this.#width + column]! / this.#unit;
  }

  step(row: number, column: number): number {
    return Math.fround(this.scales[row]! * this.columnScales[column]!) / this.#unit;
  }

  /** Sets the scale of a column from the targets of its weights, which feedback makes larger than the weights. */
  setColumnScale(column: number, target: Float64Array): void {
    const relative = target.map((value, r) =>
      this.scales[r]! > 0 && !this.isOutlier(r, column) ? (value * this.#factor) / this.scales[r]! : 0,
    );
    this.columnScales[column] = roundedBrainFloat(spreadOf(relative));
  }

  isOutlier(row: number, column: number): boolean {
    return this.#outliers.has(row * this.#width + column);
  }

  put(row: number, column: number, state: number): void {
    const plane = trellisPlaneBytes(this.#width);
    for (let b = 0; b < this.#bits; b++)
      this.data[(row * this.#bits + b) * plane + (column >> 3)]! |= ((state >> b) & 1) << (column & 7);
  }
}

/** The root mean square of the values that are not far beyond the others. */
function spreadOf(values: Float64Array): number {
  for (let limit = Infinity; ; ) {
    let [sum, count] = [0, 0];
    for (const value of values) {
      if (Math.abs(value) > limit) continue;
      sum += value * value;
      count++;
    }
    const spread = Math.sqrt(sum / (count || 1));
    if (OUTLIER * spread >= limit * 0.99) return spread;
    limit = OUTLIER * spread;
  }
}

/** The number of outliers of a matrix: those are stored as they are. */
export const outlierCount = (rows: number, width: number) => Math.floor((rows * width) / 2048);

/** The positions of the weights that are largest relative to the spreads of their rows and columns. */
function outliersOf(values: Float32Array, rows: Float64Array, columns: Float64Array, count: number): number[] {
  const width = columns.length;
  const ratios = values.map((value, i) => {
    const spread = rows[Math.floor(i / width)]! * columns[i % width]!;
    return spread > 0 ? Math.abs(value) / spread : 0;
  });
  const largest: number[] = [];
  for (let least = 3; largest.length < count; least = least > 0.1 ? least / 2 : -1) {
    largest.length = 0;
    for (const [i, ratio] of ratios.entries()) if (ratio > least) largest.push(i);
  }
  return largest.sort((a, b) => ratios[b]! - ratios[a]! || a - b).slice(0, count);
}

/**
 * Numbers per row and per column whose products are about the root mean squares of the weights without outliers, and
 * that of all weights (1 if it is 0). Throws if a weight is not finite.
 */
function spreads(values: Float32Array, width: number, tensor: string) {
  const count = values.length / width;
  let largest = 0;
  for (let r = 0; r < count; r++)
    largest = Math.max(largest, largestOf(values.subarray(r * width, (r + 1) * width), tensor, r));
  const unit = largest || 1; // relative to it, squares neither overflow nor vanish
  const columns = new Float64Array(width).fill(1);
  const ofRows = () =>
    Float64Array.from({ length: count }, (_, r) => {
      const row = Float64Array.from(columns, (spread, c) => (spread > 0 ? values[r * width + c]! / unit / spread : 0));
      return spreadOf(row);
    });
  let rows = ofRows();
  for (let c = 0; c < width; c++)
    columns[c] = spreadOf(rows.map((spread, r) => (spread > 0 ? values[r * width + c]! / unit / spread : 0)));
  rows = ofRows();
  const all = Math.sqrt(rows.reduce((sum, spread) => sum + spread * spread, 0) / (count || 1));
  return { rows: rows.map((spread) => spread * unit), columns, unit: unit * (all || 1) };
}
