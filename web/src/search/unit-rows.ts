/** Reads vectors for heed/util, and collects the best hits of many queries. */
import { invalid } from '../base/error.js';
import { type Hit, type Largest, largest } from '../base/scores.js';
import { readRows } from '../base/tensor.js';
import type { Matrix } from './pair-products.js';
import { type Corpus, readCorpus } from './similarity.js';

/**
 * Reads rows and scales them to unit norm, so that products are cosines. Bits are read as +1 and -1. A row of zeros
 * stays zero.
 */
export function readUnitRows(name: string, value: Corpus): Matrix {
  const { data, count, width: stored, bits } = readCorpus(name, value);
  const width = bits ? 8 * stored : stored;
  const unit = new Float32Array(count * width);
  const entry = (i: number) => (bits ? (data[i >> 3]! & (128 >> (i & 7)) ? 1 : -1) : data[i]!);
  for (let n = 0; n < count; n++) {
    let sum = 0;
    for (let i = n * width; i < (n + 1) * width; i++) sum += entry(i) ** 2;
    if (!Number.isFinite(sum)) throw notFinite(name, n);
    const norm = Math.sqrt(sum) || 1;
    for (let i = n * width; i < (n + 1) * width; i++) unit[i] = entry(i) / norm;
  }
  return { data: unit, count, width };
}

/** Reads rows without scaling them. */
export function readFiniteRows(name: string, value: unknown): Matrix {
  const { data, shape } = readRows(name, value);
  const [count, width] = shape as [number, number];
  const wrong = data.findIndex((entry) => !Number.isFinite(entry));
  if (wrong >= 0) throw notFinite(name, Math.floor(wrong / width));
  return { data, count, width };
}

const notFinite = (name: string, row: number) => invalid(name, 'finite numbers', `NaN or infinity in row ${row}`);

export function requireSameWidth(name: string, rows: Matrix, width: number): void {
  if (rows.count > 0 && rows.width !== width)
    throw invalid(name, `rows of ${width} entries`, `rows of ${rows.width}`, 'SHAPE_MISMATCH');
}

/** One collection per query of its `count` hits with the largest scores. Push hits in the order of their rows. */
export function largestHits(queries: number, count: number): Largest<Hit>[] {
  return Array.from({ length: queries }, () => largest(count));
}
