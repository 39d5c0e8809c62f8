/**
 * Encodes matrices in 2 to 4 bits, as decoded by cpp/src/core/trellis.h: trellis-coded quantization (Marcellin, Fischer
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
const SPREAD = { 2: 1.03, 3: 1.08, 4: 1.12 };

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

/** The measured squared error of a coded weight, in units of its step, for |weight| / step = 20, 60, 100, ... */
const ERRORS = {
  2: [1300, 1340, 1340, 1500, 1540, 1590, 1900, 2000, 2300, 3400, 4600, 6000, 12000],
  3: [346, 353, 363, 371, 394, 428, 491, 576, 646, 832, 912, 1793, 5086],
  4: [87, 88, 90, 94, 100, 106, 121, 132, 153, 191, 315, 830, 3972],
};

/** The error that `ERRORS` predicts for a weight of `size` steps. Beyond the table, weights are clipped. */
function predictedError(bits: TrellisBits, size: number): number {
  const known = ERRORS[bits];
  const at = Math.max(size / 40 - 0.5, 0);
  if (at >= known.length - 1) return (size - 440) ** 2;
  const i = Math.floor(at);
  return known[i]! + (at - i) * (known[i + 1]! - known[i]!);
}

/** The number of weights that one call searches. */
const WEIGHTS_PER_CALL = 1 << 14;

/**
 * Encodes an embedding table, in which each row is a sequence of its own. Rows with weights beyond the largest level have
 * larger scales if that is expected to make the error smaller: frequent tokens, such as [CLS] and punctuation, have such
 * rows.
 */
export async function trellisRows(values: Float32Array, width: number, run: Run): Promise<TrellisMatrix> {
  const matrix = new Encoder(values, width, run);
  const block = Math.max(1, Math.floor(WEIGHTS_PER_CALL / width));
  for (let first = 0; first < matrix.rows; first += block) {
    await run.pause();
    const count = Math.min(block, matrix.rows - first);
    const targets = new Float32Array(count * width);
    const steps = new Float32Array(count * width);
    for (let r = 0; r < count; r++) {
      matrix.chooseRowScale(first + r);
      matrix.fillRow(first + r, targets, steps, r * width);
    }
    const states = run.core.trellisSearch(run.bits, new Int32Array(count).fill(width), targets, steps);
    for (let r = 0; r < count; r++) {
      const [begin, end] = [r * width, (r + 1) * width];
      const own = states.subarray(begin, end);
      matrix.scaleRow(first + r, fittedFactor(targets.subarray(begin, end), steps.subarray(begin, end), own));
      matrix.putRow(first + r, own);
    }
  }
  return matrix;
}

/** The number of columns per block; the feedback of a block to later blocks is a matrix product. */
const COLUMNS_PER_PRODUCT = 32;

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
  const errors = new Float32Array(feedback ? rows * width : 0); // in the order of `feedback`
  for (let begin = 0; begin < width; begin += COLUMNS_PER_PRODUCT) {
    const end = Math.min(begin + COLUMNS_PER_PRODUCT, width);
    const earlier = feedback && begin > 0 ? feedbackOfBlocks(run.core, feedback, errors, begin, end) : null;
    for (let t = begin; t < end; t++) {
      await run.pause();
      const column = feedback?.order[t] ?? t;
      const weights = matrix.weightsOfColumn(column);
      const target = weights.slice();
      if (earlier) for (let r = 0; r < rows; r++) target[r]! += earlier[r * (end - begin) + t - begin]!;
      const factors = feedback?.factors(t, begin);
      if (factors) addFeedback(target, errors, width, begin, factors);
      matrix.setColumnScale(column, target);
      let steps = matrix.stepsOfColumn(column);
      const states = run.core.trellisSearch(run.bits, Int32Array.of(rows), Float32Array.from(target), steps);
      matrix.putColumn(column, states);
      matrix.scaleColumn(column, fittedFactor(target, steps, states));
      steps = matrix.stepsOfColumn(column);
      if (!feedback) continue;
      for (let r = 0; r < rows; r++) {
        const value = matrix.isOutlier(r, column) ? weights[r]! : steps[r]! * TRELLIS_LEVELS[states[r]!]!;
        errors[r * width + t] = weights[r]! - value;
      }
    }
  }
  return matrix;
}

/**
 * The feedback of the columns before `begin` to the targets of columns [begin, end): [rows, end - begin]. `errors`:
 * [rows, width].
 */
function feedbackOfBlocks(core: Core, feedback: Feedback, errors: Float32Array, begin: number, end: number) {
  const width = feedback.order.length;
  const rows = errors.length / width;
  const before = new Float32Array(rows * begin);
  for (let r = 0; r < rows; r++) before.set(errors.subarray(r * width, r * width + begin), r * begin);
  const factors = new Float32Array((end - begin) * begin);
  for (let t = begin; t < end; t++) factors.set(feedback.factors(t).subarray(0, begin), (t - begin) * begin);
  return core.compute('linear', {
    x: { data: before, shape: [rows, begin] },
    weight: { data: factors, shape: [end - begin, begin] },
    bias: null,
    activation: 'identity',
  }).data;
}

/** The factor on the steps that minimizes the error of a sequence, given its states. */
function fittedFactor(target: Float32Array | Float64Array, steps: Float32Array, states: Uint16Array): number {
  let [products, squares] = [0, 0];
  for (let k = 0; k < states.length; k++) {
    const value = steps[k]! * TRELLIS_LEVELS[states[k]!]!;
    products += target[k]! * value;
    squares += value * value;
  }
  return products > 0 && squares > 0 ? products / squares : 1;
}

/** Adds the errors of the columns from `begin` on, one per factor, to the target of the column after them. */
function addFeedback(
  target: Float64Array,
  errors: Float32Array,
  width: number,
  begin: number,
  factors: Float64Array,
): void {
  for (let r = 0; r < target.length; r++) {
    const at = r * width + begin;
    let sum = 0;
    for (let i = 0; i < factors.length; i++) sum += factors[i]! * errors[at + i]!;
    target[r]! += sum;
  }
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
  /** 1 for each weight that is an outlier; empty if there are none. */
  readonly #isOutlier: Uint8Array;

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
    this.#isOutlier = new Uint8Array(positions.length > 0 ? values.length : 0);
    for (const at of positions) this.#isOutlier[at] = 1;
    this.outliers = Float32Array.from(positions.flatMap((at) => [Math.floor(at / width), at % width, values[at]!]));
  }

  weight(row: number, column: number): number {
    return this.#values[row * this.#width + column]! / this.#unit;
  }

  weightsOfColumn(column: number): Float64Array {
    const weights = new Float64Array(this.rows); // a loop, because Float64Array.from takes several times as long
    for (let r = 0; r < this.rows; r++) weights[r] = this.weight(r, column);
    return weights;
  }

  #step(row: number, column: number): number {
    return Math.fround(this.scales[row]! * this.columnScales[column]!) / this.#unit;
  }

  /** Writes the weights and steps of a row to `targets` and `steps`, from `at` on. */
  fillRow(row: number, targets: Float32Array, steps: Float32Array, at: number): void {
    for (let c = 0; c < this.#width; c++) {
      targets[at + c] = this.weight(row, c);
      steps[at + c] = this.#step(row, c);
    }
  }

  /** The steps of a column; those of outliers are 0. */
  stepsOfColumn(column: number): Float32Array {
    const steps = new Float32Array(this.rows);
    for (let r = 0; r < this.rows; r++) if (!this.isOutlier(r, column)) steps[r] = this.#step(r, column);
    return steps;
  }

  /** Makes the scale of a row with weights beyond the largest level larger if that makes the predicted error smaller. */
  chooseRowScale(row: number): void {
    const scale = this.scales[row]!;
    let excess = 0;
    for (let c = 0; c < this.#width; c++)
      excess = Math.max(excess, Math.abs(this.weight(row, c)) / (this.#step(row, c) || 1) / TOP);
    if (excess <= 1) return;
    let best = { error: Infinity, scale };
    for (const power of [0, 0.25, 0.5, 0.75, 1]) {
      this.scales[row] = roundedBrainFloat(scale * excess ** power);
      let error = 0;
      for (let c = 0; c < this.#width; c++) {
        const step = this.#step(row, c);
        if (step > 0) error += step * step * predictedError(this.#bits, Math.abs(this.weight(row, c)) / step);
      }
      if (error < best.error) best = { error, scale: this.scales[row]! };
    }
    this.scales[row] = best.scale;
  }

  /** Sets the scale of a column from the targets of its weights, which feedback makes larger than the weights. */
  setColumnScale(column: number, target: Float64Array): void {
    const relative = new Float64Array(this.rows);
    for (let r = 0; r < this.rows; r++)
      if (this.scales[r]! > 0 && !this.isOutlier(r, column))
        relative[r] = (target[r]! * this.#factor) / this.scales[r]!;
    this.columnScales[column] = roundedBrainFloat(spreadOf(relative));
  }

  scaleRow(row: number, factor: number): void {
    this.scales[row] = roundedBrainFloat(this.scales[row]! * factor);
  }

  scaleColumn(column: number, factor: number): void {
    this.columnScales[column] = roundedBrainFloat(this.columnScales[column]! * factor);
  }

  isOutlier(row: number, column: number): boolean {
    return this.#isOutlier[row * this.#width + column] === 1;
  }

  #put(row: number, column: number, state: number): void {
    const plane = trellisPlaneBytes(this.#width);
    const at = row * this.#bits * plane + (column >> 3);
    for (let b = 0; b < this.#bits; b++) this.data[at + b * plane]! |= ((state >> b) & 1) << (column & 7);
  }

  putRow(row: number, states: Uint16Array): void {
    for (let c = 0; c < this.#width; c++) this.#put(row, c, states[c]!);
  }

  putColumn(column: number, states: Uint16Array): void {
    for (let r = 0; r < this.rows; r++) this.#put(r, column, states[r]!);
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
  if (count === 0) return [];
  const width = columns.length;
  const ratios = new Float32Array(values.length);
  for (let r = 0, i = 0; r < rows.length; r++)
    for (let c = 0; c < width; c++, i++) {
      const spread = rows[r]! * columns[c]!;
      if (spread > 0) ratios[i] = Math.abs(values[i]!) / spread;
    }
  const largest: number[] = [];
  for (let least = 3; largest.length < count; least = least > 0.1 ? least / 2 : -1) {
    largest.length = 0;
    for (let i = 0; i < ratios.length; i++) if (ratios[i]! > least) largest.push(i);
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
  const row = new Float64Array(width);
  const ofRows = () =>
    Float64Array.from({ length: count }, (_, r) => {
      for (let c = 0; c < width; c++) row[c] = columns[c]! > 0 ? values[r * width + c]! / unit / columns[c]! : 0;
      return spreadOf(row);
    });
  let rows = ofRows();
  const column = new Float64Array(count);
  for (let c = 0; c < width; c++) {
    for (let r = 0; r < count; r++) column[r] = rows[r]! > 0 ? values[r * width + c]! / unit / rows[r]! : 0;
    columns[c] = spreadOf(column);
  }
  rows = ofRows();
  const all = Math.sqrt(rows.reduce((sum, spread) => sum + spread * spread, 0) / (count || 1));
  return { rows: rows.map((spread) => spread * unit), columns, unit: unit * (all || 1) };
}
