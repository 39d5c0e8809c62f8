/**
 * Weights in fewer bits, as heed's loader reads them (docs/quantization.md): the layouts of a tensor `X` and its scales `X_scale`. Everything is rounded in fp32, as in the core
 * (cpp/src/gemm/weights/int8.cpp), so that a quantized matrix is bit for bit the one that loading it as 'q8' would have made.
 */
import { invalidFile } from '../error.js';
import { INT4_GROUP, int4Scales } from './safetensors.js';

const { fround } = Math;

/** Adding and subtracting it in fp32 rounds to the nearest integer, halves to even. */
const ROUNDER = 1.5 * 2 ** 23;
const rounded = (x: number) => fround(fround(x + ROUNDER) - ROUNDER);

/** The greatest sum of 8 weights of one sign whose products with 127 fit into 16 bits, less what rounding may add. */
const NARROW = Math.floor(32767 / 127) - 4;

/** The greatest magnitude among `x`, which has to be finite. `row`: for the message. */
function largestOf(x: Float32Array, tensor: string, row: number): number {
  let largest = 0;
  for (const v of x) {
    if (!Number.isFinite(v)) throw invalidFile(tensor, 'finite weights', `${v} in row ${row}`);
    largest = Math.max(largest, Math.abs(v));
  }
  return largest;
}

/** The greatest sum of the weights of one sign whose products a kernel adds in 16 bits: of each 16 columns, those at k = 0 or 1 modulo 4, and those at 2 or 3. */
function largestEight(x: Float32Array): number {
  let largest = 0;
  const at = (k: number, sign: number) => Math.max(sign * (x[k] ?? 0), 0);
  for (let k = 0; k < x.length; k += 16) {
    for (const sign of [1, -1]) {
      const lane = (i: number) =>
        fround(fround(fround(at(k + i, sign) + at(k + i + 4, sign)) + at(k + i + 8, sign)) + at(k + i + 12, sign));
      largest = Math.max(largest, fround(lane(0) + lane(1)), fround(lane(2) + lane(3)));
    }
  }
  return largest;
}

export interface QuantizedRows {
  /** int8: [rows, width]; 4 bits: [rows, width / 2] */
  data: Int8Array | Uint8Array;
  /** int8: [rows]; 4 bits: [rows, int4Scales(width)] */
  scales: Float32Array;
}

/**
 * Rows of `width` as int8, one scale per row: value = data * scale. `table`: rows of an embedding table, which are read one by one, use all of -127..127, and
 * scales that bfloat16 can hold; those of a matrix a smaller range where that lets a faster kernel multiply them and costs little. `tensor`, `firstRow`: for messages.
 * @throws HeedError INVALID_FILE for an infinity or a NaN
 */
export function int8Rows(
  rows: Float32Array,
  width: number,
  { table, tensor, firstRow = 0 }: { table: boolean; tensor: string; firstRow?: number },
): QuantizedRows {
  const count = rows.length / width;
  const data = new Int8Array(rows.length);
  const scales = new Float32Array(count);
  for (let r = 0; r < count; r++) {
    const row = rows.subarray(r * width, (r + 1) * width);
    const full = fround(largestOf(row, tensor, firstRow + r) / 127);
    let scale = full;
    if (table) scale = brainFloatAbove(full);
    else {
      const narrow = fround(largestEight(row) / NARROW);
      if (narrow <= fround(2.5 * full)) scale = Math.max(full, narrow);
    }
    const inverse = scale > 0 ? fround(1 / scale) : 0;
    scales[r] = scale;
    for (let k = 0; k < width; k++)
      data[r * width + k] = Math.max(-128, Math.min(127, rounded(fround(row[k]! * inverse))));
  }
  return { data, scales };
}

/** The number that bfloat16 has next to an fp32 number, away from 0. */
function brainFloatAbove(x: number): number {
  const float = Float32Array.of(x);
  const bits = new Uint32Array(float.buffer);
  bits[0] = (bits[0]! + 0xffff) & 0xffff0000;
  return float[0]!;
}

/** The levels of 4-bit rows, those with the least squared error for groups of normally distributed numbers (Lloyd 1982); as in the core's int4.cpp. */
export const INT4_LEVELS = [-127, -102, -82, -64, -49, -35, -22, -9, 3, 15, 28, 40, 55, 71, 91, 124];

/** The index of the nearest level by floor(2 (t + 128)): the middles between levels are multiples of 1 / 2. */
const NEAREST = Uint8Array.from({ length: 512 }, (_, i) => {
  const t = i / 2 - 128;
  return INT4_LEVELS.filter((level, q) => q > 0 && (INT4_LEVELS[q - 1]! + level) / 2 <= t).length;
});
const nearestLevel = (t: number) => NEAREST[Math.max(0, Math.min(511, Math.floor(2 * (t + 128))))]!;

/** Divisors of a group's largest magnitude that are tried as its scale. */
const DIVISORS = [-142, -134, -127, -120, -113, -106, -99, 124, 117, 110, 103];

/**
 * Rows of an even `width` in 4 bits: column k is in byte k / 2, in the low half if k is even, as the index of one of INT4_LEVELS; 32 columns share a scale that bfloat16 can hold:
 * value = scale * level. The scale of a group is the one with the least squared error of several.
 * @throws HeedError INVALID_FILE for an odd width, an infinity or a NaN
 */
export function int4Rows(
  rows: Float32Array,
  width: number,
  { tensor, firstRow = 0 }: { tensor: string; firstRow?: number },
): QuantizedRows {
  if (width % 2 !== 0) throw invalidFile(tensor, 'an even width for 4 bits', `${width}`);
  const count = rows.length / width;
  const groups = int4Scales(width);
  const data = new Uint8Array(rows.length / 2);
  const scales = new Float32Array(count * groups);
  for (let r = 0; r < count; r++) {
    for (let g = 0; g < groups; g++) {
      const begin = r * width + g * INT4_GROUP;
      const group = rows.subarray(begin, Math.min(begin + INT4_GROUP, (r + 1) * width));
      const scale = int4Scale(group, largestOf(group, tensor, firstRow + r));
      scales[r * groups + g] = scale;
      group.forEach((v, k) => {
        data[(begin + k) >> 1]! |= nearestLevel(scale === 0 ? 0 : v / scale) << (4 * (k & 1));
      });
    }
  }
  return { data, scales };
}

function int4Scale(group: Float32Array, largest: number): number {
  let [best, least] = [0, Infinity];
  /** Tries a scale; returns the one with the least squared error for the levels that it assigns. */
  const attempt = (scale: number) => {
    let [error, products, squares] = [0, 0, 0];
    for (const v of group) {
      const level = INT4_LEVELS[nearestLevel(v / scale)]!;
      error += (v - scale * level) ** 2;
      products += v * level;
      squares += level * level;
    }
    if (error < least) [best, least] = [scale, error];
    return products / squares;
  };
  if (largest === 0) return 0;
  // The sign of the scale decides whether the lowest or the highest level is on the side of the largest weight.
  const side = group.includes(largest) ? 1 : -1;
  let fitted = 0;
  for (const divisor of DIVISORS) {
    const scale = brainFloatAbove((side * largest) / divisor);
    const refined = attempt(scale);
    if (best === scale) fitted = refined;
  }
  attempt(brainFloatAbove(fitted));
  return best;
}

/** The numbers that 4-bit rows stand for: the inverse of `int4Rows`. */
export function int4Values({ data, scales }: QuantizedRows, width: number): Float32Array {
  const groups = int4Scales(width);
  return Float32Array.from({ length: 2 * data.length }, (_, i) => {
    const scale = scales[Math.floor(i / width) * groups + Math.floor((i % width) / INT4_GROUP)]!;
    return scale * INT4_LEVELS[(data[i >> 1]! >> (4 * (i & 1))) & 15]!;
  });
}

/** fp32 numbers as bfloat16, exact for those that it can hold. */
export function brainFloats(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Uint16Array.from(bits, (word) => word >>> 16);
}

/** `quantization_config` of config.json, in the format of compressed-tensors; tables with 4 bits in a group of their own. `ignore`: modules whose matrices are floats. */
export function quantizationConfig(tables: 'int8' | 'int4', ignore: readonly string[]): object {
  const weights = { num_bits: 8, type: 'int', symmetric: true, strategy: 'channel', dynamic: false };
  const int4 = { ...weights, num_bits: 4, strategy: 'group', group_size: INT4_GROUP };
  return {
    quant_method: 'compressed-tensors',
    format: 'int-quantized',
    quantization_status: 'compressed',
    config_groups:
      tables === 'int8'
        ? { group_0: { targets: ['Linear', 'Embedding'], weights } }
        : { group_0: { targets: ['Linear'], weights }, group_1: { targets: ['Embedding'], weights: int4 } },
    ignore,
  };
}
