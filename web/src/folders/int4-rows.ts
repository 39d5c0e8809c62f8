/**
 * Encodes rows of weights in 4 bits, as decoded by cpp/src/core/int4.h: trellis-coded quantization (Marcellin, Fischer
 * 1990, doi:10.1109/26.46532). For each column, the trellis state selects 16 of 32 levels; the 4-bit index chooses one
 * of these and determines the next state. The Viterbi algorithm finds the indices with the minimum squared error, which
 * is about a fifth below that of 16 fixed levels.
 */
import { invalidFile } from '../base/error.js';
import { int4RowBytes } from '../io/safetensors.js';
import { brainFloatAbove, largestOf } from './quantize-rows.js';

/** Columns that share a factor. */
const GROUP = 64;

const POSITIVE = [3, 8, 13, 18, 24, 29, 36, 42, 48, 55, 62, 71, 80, 90, 105, 127];
/**
 * Levels with the minimum squared error for normally distributed numbers, computed by Lloyd's algorithm, as in
 * int4.cpp.
 */
const LEVELS = Float64Array.from([...POSITIVE.map((level) => -level).reverse(), ...POSITIVE]);

/**
 * The states 2n and 2n + 1 are reached from SOURCES[n] and SOURCES[n] + 2. State 2n is reached from the first by an
 * even index and from the second by an odd index; state 2n + 1 the other way round.
 */
const SOURCES = [0, 4, 5, 1];

/**
 * Entry [floor(2 (t + 128)), n]: index of the level nearest to t among those with indices n modulo 4. Steps of 1 / 2
 * suffice, because the midpoints between integer levels are multiples of 1 / 2.
 */
const NEAREST = Uint8Array.from({ length: 4 * 512 }, (_, i) => {
  const t = (i >> 2) / 2 - 128;
  let level = i & 3;
  while (level < 28 && (LEVELS[level]! + LEVELS[level + 4]!) / 2 <= t) level += 4;
  return level;
});

/** Indices of the nearest levels of each column, [column, n]. */
const nearest = new Uint8Array(4 * GROUP);
/** Per column, one bit per state: whether the best path to it comes from its second source. */
const second = new Uint8Array(GROUP);
/** Errors of the best paths to the 8 states before and after a column, in alternating halves. */
const costs = new Float64Array(16);
const errors = new Float64Array(4);

/**
 * Finds the path with the minimum squared error for up to 64 columns divided by `step`. Returns its final state and
 * error.
 */
function bestPath(columns: Float32Array, step: number): { state: number; error: number } {
  costs.fill(Infinity)[0] = 0;
  let before = 0;
  for (let k = 0; k < columns.length; k++) {
    const t = columns[k]! / step;
    const at = 4 * Math.max(0, Math.min(511, Math.floor(2 * (t + 128))));
    for (let n = 0; n < 4; n++) {
      const level = NEAREST[at + n]!;
      const error = t - LEVELS[level]!;
      nearest[4 * k + n] = level;
      errors[n] = error * error;
    }
    let bits = 0;
    for (let n = 0; n < 4; n++) {
      const source = SOURCES[n]!;
      const a = costs[before + source]!;
      const b = costs[before + source + 2]!;
      const even = errors[source & 1]!;
      const odd = errors[2 + (source & 1)]!;
      if (b + odd < a + even) bits |= 1 << (2 * n);
      if (b + even < a + odd) bits |= 2 << (2 * n);
      costs[8 - before + 2 * n] = Math.min(a + even, b + odd);
      costs[9 - before + 2 * n] = Math.min(a + odd, b + even);
    }
    second[k] = bits;
    before = 8 - before;
  }
  const last = costs.subarray(before, before + 8);
  const error = Math.min(...last);
  return { state: last.indexOf(error), error };
}

/** Writes the indices of the path that ends in `state`. */
function tracePath(state: number, indices: Uint8Array): void {
  for (let k = indices.length - 1; k >= 0; k--) {
    const isSecond = (second[k]! >> state) & 1;
    const from = SOURCES[state >> 1]! + 2 * isSecond;
    indices[k] = nearest[4 * k + 2 * ((state & 1) ^ isSecond) + (from & 1)]! >> 1;
    state = from;
  }
}

/** Levels near which the largest magnitude is placed: ROW for a row, LEAST to MOST for a group. */
const [ROW, LEAST, MOST] = [110, 105, 140];

/**
 * Encodes rows of an even `width` in 4 bits, [rows, int4RowBytes(width)], with one scale per row that bfloat16
 * represents exactly. Each group's factor is the one with the minimum squared error.
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
  const indices = new Uint8Array(width);
  for (let r = 0; r < count; r++) {
    const row = rows.subarray(r * width, (r + 1) * width);
    const scale = brainFloatAbove(largestOf(row, tensor, firstRow + r) / (16 * ROW));
    scales[r] = scale;
    if (scale === 0) continue;
    const at = r * rowBytes;
    for (let begin = 0, g = 0; begin < width; begin += GROUP, g++) {
      const factor = factorOf(row.subarray(begin, begin + GROUP), scale, indices.subarray(begin, begin + GROUP));
      data[at + (g >> 1)]! |= (factor - 1) << (4 * (g & 1));
    }
    for (let k = 0; k < width; k++) data[at + rowBytes - ((width - k + 1) >> 1)]! |= indices[k]! << (4 * (k & 1));
  }
  return { data, scales };
}

/** Returns the factor in 1..16 with the minimum squared error for a group, and writes the group's indices. */
function factorOf(columns: Float32Array, scale: number, indices: Uint8Array): number {
  const largest = columns.reduce((max, v) => Math.max(max, Math.abs(v)), 0) / scale;
  const clamped = (factor: number) => Math.max(1, Math.min(16, factor));
  let [best, least] = [1, Infinity];
  for (let factor = clamped(Math.floor(largest / MOST)); factor <= clamped(Math.ceil(largest / LEAST)); factor++) {
    const { state, error } = bestPath(columns, scale * factor);
    if (factor ** 2 * error >= least) continue;
    [best, least] = [factor, factor ** 2 * error];
    tracePath(state, indices);
  }
  return best;
}
