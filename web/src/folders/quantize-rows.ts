/**
 * Quantizes weights to the formats of a tensor `X` and its scales `X_scale` that heed's loader reads
 * (docs/quantization.md). Everything is rounded in fp32, as in cpp/src/gemm/weights/int8.cpp, so that a quantized
 * matrix is bit for bit the one that loading with 'q8' would produce.
 */
import { invalidFile } from '../base/error.js';
import type { RowCode } from '../base/wasm/core.js';
import { type Rotation, transformConfig } from '../models/families/quantization.js';

const { fround } = Math;

/** Adding and subtracting this number in fp32 rounds to the nearest integer, ties to even. */
const ROUNDER = 1.5 * 2 ** 23;
const rounded = (x: number) => fround(fround(x + ROUNDER) - ROUNDER);

/** Maximum sum of 8 weights of one sign whose products with 127 fit into 16 bits, minus a margin of 4 for rounding. */
const NARROW = Math.floor(32767 / 127) - 4;

/** The largest magnitude in `x`. Throws if an entry is not finite; `row` is for the message. */
export function largestOf(x: Float32Array, tensor: string, row: number): number {
  let largest = 0;
  for (const v of x) {
    if (!Number.isFinite(v)) throw invalidFile(tensor, 'finite weights', `${v} in row ${row}`);
    largest = Math.max(largest, Math.abs(v));
  }
  return largest;
}

/**
 * The largest sum of weights of one sign whose products a kernel adds in 16 bits. In each block of 16 columns, these
 * are the columns k with k mod 4 in {0, 1}, and those with k mod 4 in {2, 3}.
 */
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

/** The most entries of a block of `rotate`. */
const MAX_BLOCK = 64;

/** The size of the blocks of strided stages in `rotate`: 1 if it changes nothing. */
export function rotationBlock(width: number): number {
  let block = 1;
  for (let stride = width; block < MAX_BLOCK && stride > 0 && stride % 8 === 0; stride /= 2) block *= 2;
  return block;
}

/**
 * The strided stages of the transform of a row of weights times `factor`: signs, and a Hadamard transform of blocks of
 * B = `rotationBlock(width)` entries that are width / B apart, as in cpp/src/gemm/rotation.h and docs/quantization.md.
 * The signs are applied by subtracting where a stage would add, and the reverse. `signs`: false for files of earlier
 * builds.
 */
function transform(row: Float32Array, factor: number, signs: boolean): Float32Array<ArrayBuffer> {
  const out = row.map((value) => value * factor);
  const least = row.length / rotationBlock(row.length);
  let isHigher = true; // of the pair of bits to which the stage belongs
  for (let stride = row.length / 2; stride >= least; stride /= 2) {
    const isSigned = signs && isHigher && stride / 2 >= least;
    for (let i = 0; i < row.length; i++) {
      if (i % (2 * stride) >= stride) continue;
      const [a, b] = [out[i]!, out[i + stride]!];
      const isNegative = isSigned && i % stride >= stride / 2;
      out[i] = isNegative ? a - b : a + b;
      out[i + stride] = isNegative ? a + b : a - b;
    }
    isHigher = !isHigher;
  }
  return out;
}

/** Rotates a row of weights. Its products with rotated rows of activations are those of the rows before. */
export function rotate(row: Float32Array): Float32Array<ArrayBuffer> {
  const block = rotationBlock(row.length);
  if (block === 1) return row.slice();
  return mixNeighbors(transform(row, 1 / (4 * block), true));
}

/** Replaces each of four neighbours by their sum minus twice itself. Every sum is rounded to fp32. */
function mixNeighbors(row: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  for (let i = 0; i < row.length; i += 4) {
    const sum = fround(fround(row[i]! + row[i + 2]!) + fround(row[i + 1]! + row[i + 3]!));
    for (let k = i; k < i + 4; k++) row[k] = sum - 2 * row[k]!;
  }
  return row;
}

/** Reverses `rotate`, or the rotation of earlier builds, without signs. */
export function rotateBack(row: Float32Array, rotation: Rotation): Float32Array<ArrayBuffer> {
  const out = transform(row, 1, false);
  if (rotation === 'strided-hadamard') return out;
  const block = rotationBlock(row.length);
  if (block === 1) return out;
  mixNeighbors(out);
  const apart = row.length / block;
  for (let j = 0; j < block; j++) {
    let pairs = 0;
    for (let low = block / 4; low >= 1; low /= 4) pairs += Math.floor(j / low) % 4 === 3 ? 1 : 0;
    if (pairs % 2 !== 0) for (let i = j * apart; i < (j + 1) * apart; i++) out[i] = -out[i]!;
  }
  return out;
}

/**
 * Quantizes rows of `width` to int8, with one scale per row: value = data * scale. `table`: rows of an embedding table
 * use the whole range -127..127 and scales that bfloat16 represents exactly. Rows of a matrix use a smaller range if a
 * faster kernel can then multiply them and the loss of precision is small. `rotated`: rows are transformed by `rotate`
 * first. `tensor`, `firstRow`: for messages.
 * @throws HeedError INVALID_FILE for NaN or infinities
 */
export function int8Rows(
  rows: Float32Array,
  width: number,
  about: { table: boolean; rotated?: boolean | undefined; tensor: string; firstRow?: number | undefined },
): { data: Int8Array; scales: Float32Array } {
  const { table, rotated = false, tensor, firstRow = 0 } = about;
  const count = rows.length / width;
  const data = new Int8Array(rows.length);
  const scales = new Float32Array(count);
  for (let r = 0; r < count; r++) {
    let row = rows.subarray(r * width, (r + 1) * width);
    let largest = largestOf(row, tensor, firstRow + r);
    if (rotated) {
      row = rotate(row);
      largest = largestOf(row, tensor, firstRow + r);
    }
    const full = fround(largest / 127);
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

/** The upper half of a float's bits, its bfloat16: rounded to the nearest, ties to even. */
const nearestHalf = (word: number) => (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;

/** Converts an fp32 number to the bfloat16 number whose bits `halfOf` returns. */
function converted(x: number, halfOf: (word: number) => number): number {
  const float = Float32Array.of(x);
  const bits = new Uint32Array(float.buffer);
  bits[0] = halfOf(bits[0]!) << 16;
  return float[0]!;
}

const wordsOf = ({ buffer, byteOffset, length }: Float32Array) => new Uint32Array(buffer, byteOffset, length);

/** Rounds an fp32 number to bfloat16, away from 0. */
export const brainFloatAbove = (x: number): number => converted(x, (word) => (word + 0xffff) >>> 16);

/** Rounds an fp32 number to the nearest bfloat16. */
export const roundedBrainFloat = (x: number): number => converted(x, nearestHalf);

/** Converts fp32 numbers to bfloat16 by truncation, which is exact for numbers that bfloat16 can represent. */
export const brainFloats = (values: Float32Array): Uint16Array =>
  Uint16Array.from(wordsOf(values), (word) => word >>> 16);

/** Rounds fp32 numbers to the nearest bfloat16. `tensor`: for messages. */
export function roundedBrainFloats(values: Float32Array, tensor: string): Uint16Array {
  const wrong = values.find((value) => !Number.isFinite(value));
  if (wrong !== undefined) throw invalidFile(tensor, 'finite weights', `${wrong}`);
  return Uint16Array.from(wordsOf(values), nearestHalf);
}

/** The stored format of embedding tables or matrices. */
export type StoredForm = 'int8' | RowCode;

/**
 * The `quantization_config` for config.json, in the format of compressed-tensors. `matrices`: each format with its
 * targets. Embedding tables are in a group of their own unless all weights have one format. `ignore`: modules whose
 * matrices remain floats. `rotated`: modules whose matrices are rotated.
 */
export function quantizationConfig(
  tables: StoredForm,
  matrices: readonly [StoredForm, string[]][],
  ignore: readonly string[],
  rotated: ReadonlyMap<string, Rotation>,
): object {
  const trellis = { type: 'trellis', symmetric: true, strategy: 'channel', dynamic: false };
  const weights = {
    trellis2: { num_bits: 2, ...trellis },
    trellis3: { num_bits: 3, ...trellis },
    trellis4: { num_bits: 4, ...trellis },
    int8: { num_bits: 8, type: 'int', symmetric: true, strategy: 'channel', dynamic: false },
    int4: { num_bits: 4, type: 'int', symmetric: true, strategy: 'group', group_size: 64, dynamic: false },
  };
  const groups: [StoredForm, string[]][] =
    matrices.length === 1 && matrices[0]![0] === tables
      ? [[tables, [...matrices[0]![1], 'Embedding']]]
      : [...matrices, [tables, ['Embedding']]];
  return {
    quant_method: 'compressed-tensors',
    format: 'int-quantized',
    quantization_status: 'compressed',
    config_groups: Object.fromEntries(
      groups.map(([form, targets], i) => [`group_${i}`, { targets, weights: weights[form] }]),
    ),
    ignore,
    ...(rotated.size > 0 && { transform_config: transformConfig(rotated) }),
  };
}
