/**
 * Rows of weights in 4 bits, as the core decodes them (cpp/src/core/int4.h): trellis-coded quantization (Marcellin, Fischer 1990, doi:10.1109/26.46532). The state of a trellis
 * selects 16 of 32 levels for each column, and the index among them, besides the level, the states that follow. The Viterbi algorithm finds the indices with the least squared error, which is
 * about a fifth below that of 16 fixed levels.
 */
import { invalidFile } from '../error.js';
import { brainFloatAbove, largestOf } from './quantize-rows.js';
import { int4RowBytes } from './safetensors.js';

/** Columns that share a factor. */
const GROUP = 64;

const POSITIVE = [3, 8, 13, 18, 24, 29, 36, 42, 48, 55, 62, 71, 80, 90, 105, 127];
/** Those with the least squared error for normally distributed numbers, computed by Lloyd's algorithm; as in the core's int4.cpp. */
const LEVELS = Float64Array.from([...POSITIVE.map((level) => -level).reverse(), ...POSITIVE]);

const STATES = 8;
const next = (state: number, bit: number) => (state >> 1) ^ (state & 1 ? 6 : 0) ^ bit;

/** The two transitions into each state: the state before, and the levels to choose from, those whose number is `kind` modulo 4. */
const TRANSITIONS = Array.from({ length: STATES }, (_, to) =>
  Array.from({ length: 2 * STATES }, (_, i) => ({ from: i >> 1, kind: 2 * (i & 1) + ((i >> 1) & 1) })).filter(
    ({ from, kind }) => next(from, kind >> 1) === to,
  ),
);
const FROM = Uint8Array.from(TRANSITIONS.flatMap((two) => two.map(({ from }) => from)));
const KIND = Uint8Array.from(TRANSITIONS.flatMap((two) => two.map(({ kind }) => kind)));

/** The number of the nearest level of each kind by floor(2 (t + 128)): the middles between integers are multiples of 1 / 2. */
const NEAREST = Uint8Array.from({ length: 4 * 512 }, (_, i) => {
  const t = (i >> 2) / 2 - 128;
  const levels = Array.from({ length: 8 }, (_, n) => 4 * n + (i & 3));
  return levels[levels.filter((at, n) => n > 0 && (LEVELS[levels[n - 1]!]! + LEVELS[at]!) / 2 <= t).length]!;
});

/** The path through the trellis with the least squared error for up to 64 columns. */
class Trellis {
  /** The numbers of the levels. */
  readonly levels = new Uint8Array(GROUP);
  readonly #nearest = new Uint8Array(4 * GROUP);
  /** Which of the two transitions into each state is on the best path to it. */
  readonly #choices = new Uint8Array(STATES * GROUP);
  readonly #errors = new Float64Array(4);
  #costs = new Float64Array(STATES);
  #reached = new Float64Array(STATES);

  /** Fills `levels` for the columns divided by `step` and returns the squared error, in units of step². */
  quantize(columns: Float32Array, step: number): number {
    this.#costs.fill(Infinity)[0] = 0;
    for (let k = 0; k < columns.length; k++) this.#advance(k, columns[k]! / step);
    let state = this.#costs.reduce((best, cost, s) => (cost < this.#costs[best]! ? s : best), 0);
    const error = this.#costs[state]!;
    for (let k = columns.length - 1; k >= 0; k--) {
      const transition = 2 * state + this.#choices[STATES * k + state]!;
      this.levels[k] = this.#nearest[4 * k + KIND[transition]!]!;
      state = FROM[transition]!;
    }
    return error;
  }

  #advance(k: number, t: number): void {
    const errors = this.#errors;
    const costs = this.#costs;
    const reached = this.#reached;
    const nearest = 4 * Math.max(0, Math.min(511, Math.floor(2 * (t + 128))));
    for (let kind = 0; kind < 4; kind++) {
      const level = NEAREST[nearest + kind]!;
      this.#nearest[4 * k + kind] = level;
      const error = t - LEVELS[level]!;
      errors[kind] = error * error;
    }
    for (let state = 0; state < STATES; state++) {
      const first = costs[FROM[2 * state]!]! + errors[KIND[2 * state]!]!;
      const second = costs[FROM[2 * state + 1]!]! + errors[KIND[2 * state + 1]!]!;
      this.#choices[STATES * k + state] = second < first ? 1 : 0;
      reached[state] = second < first ? second : first;
    }
    [this.#costs, this.#reached] = [reached, costs];
  }
}

/** The levels that the largest number of a row, and of a group, may be near to. */
const [ROW, LEAST, MOST] = [110, 105, 140];

/**
 * Rows of an even `width` in 4 bits, [rows, int4RowBytes(width)], with a scale each, which bfloat16 can hold. A group's factor is the one with the least squared error.
 * @throws HeedError INVALID_FILE for an odd width, an infinity or a NaN
 */
export function int4Rows(
  rows: Float32Array,
  width: number,
  { tensor, firstRow = 0 }: { tensor: string; firstRow?: number },
): { data: Uint8Array; scales: Float32Array } {
  if (width % 2 !== 0) throw invalidFile(tensor, 'an even width for 4 bits', `${width}`);
  const rowBytes = int4RowBytes(width);
  const count = rows.length / width;
  const data = new Uint8Array(count * rowBytes);
  const scales = new Float32Array(count);
  const trellis = new Trellis();
  for (let r = 0; r < count; r++) {
    const row = rows.subarray(r * width, (r + 1) * width);
    const scale = brainFloatAbove(largestOf(row, tensor, firstRow + r) / (16 * ROW));
    scales[r] = scale;
    if (scale > 0) writeRow(data.subarray(r * rowBytes, (r + 1) * rowBytes), row, scale, trellis);
  }
  return { data, scales };
}

function writeRow(out: Uint8Array, row: Float32Array, scale: number, trellis: Trellis): void {
  const indices = out.length - row.length / 2;
  for (let begin = 0, g = 0; begin < row.length; begin += GROUP, g++) {
    const columns = row.subarray(begin, begin + GROUP);
    const factor = factorOf(columns, scale, trellis);
    trellis.quantize(columns, scale * factor);
    out[g >> 1]! |= (factor - 1) << (4 * (g & 1));
    for (let k = 0; k < columns.length; k++)
      out[indices + ((begin + k) >> 1)]! |= (trellis.levels[k]! >> 1) << (4 * (k & 1));
  }
}

/** The factor in 1..16 with the least squared error. */
function factorOf(columns: Float32Array, scale: number, trellis: Trellis): number {
  const largest = columns.reduce((max, v) => Math.max(max, Math.abs(v)), 0) / scale;
  const clamped = (factor: number) => Math.max(1, Math.min(16, factor));
  let [best, least] = [1, Infinity];
  for (let factor = clamped(Math.floor(largest / MOST)); factor <= clamped(Math.ceil(largest / LEAST)); factor++) {
    const error = factor ** 2 * trellis.quantize(columns, scale * factor);
    if (error < least) [best, least] = [factor, error];
  }
  return best;
}
