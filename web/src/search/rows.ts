/** Reads rows of numbers, int8 or bits. */
import { guarded, invalid } from '../base/error.js';
import { read, readRows, requireMatrix, type TensorInput } from '../base/tensor.js';
import type { Rows } from '../models/quantized.js';
import type { Matrix } from './pair-products.js';

/**
 * The rows of a corpus: fp32 [M,E], or what `embed` returns for the outputs 'int8' [M,E] and 'binary' [M, ceil(E / 8)].
 */
export type Corpus = TensorInput | { readonly data: Int8Array | Uint8Array; readonly shape: readonly number[] };

/** Reads fp32 rows. An empty array has no rows. */
export function readFloatRows(name: string, value: unknown): Rows & { data: Float32Array } {
  const isEmpty = guarded(name, () => Array.isArray(value) && value.length === 0);
  const { data, shape } = isEmpty ? { data: new Float32Array(), shape: [0, 0] } : readRows(name, value);
  return { data, count: shape[0]!, width: shape[1]!, bits: false };
}

/** Reads fp32 rows whose entries must be finite. */
export function readFiniteRows(name: string, value: unknown): Matrix {
  const rows = readFloatRows(name, value);
  requireFinite(name, rows.data);
  return rows;
}

export function readCorpus(name: string, value: unknown): Rows {
  const kind = guarded(
    name,
    () => (value as { data?: Int8Array | undefined } | null)?.data?.[Symbol.toStringTag] as string,
  );
  if (kind !== 'Int8Array' && kind !== 'Uint8Array') return readFloatRows(name, value);
  const entries = { Store: Int8Array, entryOf: () => null, entries: '' }; // nested arrays do not get here
  const { data, shape } = read(name, value, `an ${kind} tensor`, `an ${kind}`, entries);
  requireMatrix(name, shape);
  return { data, count: shape[0]!, width: shape[1]!, bits: kind === 'Uint8Array' };
}

/**
 * Reads rows and scales them to unit norm, so that products are cosines. Bits are read as +1 and -1. A row of zeros
 * stays zero.
 */
export function readUnitRows(name: string, value: Corpus): Matrix {
  const { data, count, width: stored, bits } = readCorpus(name, value);
  requireFinite(name, data);
  const width = bits ? 8 * stored : stored;
  const unit = new Float32Array(count * width);
  const entry = (i: number) => (bits ? (data[i >> 3]! & (128 >> (i & 7)) ? 1 : -1) : data[i]!);
  for (let n = 0; n < count; n++) {
    let sum = 0;
    for (let i = n * width; i < (n + 1) * width; i++) sum += entry(i) ** 2;
    const norm = Math.sqrt(sum) || 1;
    for (let i = n * width; i < (n + 1) * width; i++) unit[i] = entry(i) / norm;
  }
  return { data: unit, count, width };
}

/** Whether no entry is infinite or NaN: such an entry times 0 is NaN, any other is 0. */
export function allFinite(data: ArrayLike<number>): boolean {
  let sum = 0;
  for (let i = 0; i < data.length; i++) sum += data[i]! * 0;
  return sum === 0;
}

/** Rejects NaN and infinities. `first`: the number of the first entry, for messages. */
export function requireFinite(name: string, data: ArrayLike<number>, first = 0): void {
  if (allFinite(data)) return;
  const at = Array.prototype.findIndex.call(data, (v: number) => !Number.isFinite(v));
  throw invalid(name, 'finite numbers', `${data[at]} at entry ${first + at}`);
}

/** Rejects rows of another width than `dimensions`, the width of the vectors with which they are compared. */
export function requireWidth(
  name: string,
  rows: { count: number; width: number; bits?: boolean | undefined },
  dimensions: number,
): void {
  const [unit, expected] = rows.bits ? ['bytes', Math.ceil(dimensions / 8)] : ['entries', dimensions];
  if (rows.count > 0 && rows.width !== expected)
    throw invalid(
      name,
      `rows of ${expected} ${unit}, for vectors of ${dimensions}`,
      `rows of ${rows.width}`,
      'SHAPE_MISMATCH',
    );
}
