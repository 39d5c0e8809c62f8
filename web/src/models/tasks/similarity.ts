/** Similarity of vectors, and the search for the most similar ones. */
import type { RawTensor } from '../../core.js';
import { formatShape, guarded, invalid } from '../../error.js';
import { optional, readOptions } from '../../options.js';
import { MAX_SIZE, readTensor, Tensor, type TensorInput } from '../../tensor.js';
import { topCount } from './task.js';

/**
 * Cosine similarity of the rows of a [N,E] and b [M,E] (default: a): [N,M]. The similarity of a zero row is 0.
 *
 * @example
 * similarity(await model.embed(['a fox', 'a dog'])).toArray(); // [[1, 0.6], [0.6, 1]]
 * @throws HeedError SHAPE_MISMATCH if the widths differ
 */
export function similarity(a: TensorInput, b: TensorInput = a): Tensor {
  const [x, y] = [readRows('similarity: a', a), readRows('similarity: b', b)];
  const [n, width] = x.shape as [number, number];
  const [m, other] = y.shape as [number, number];
  if (width !== other)
    throw invalid('similarity', 'vectors of the same width', `widths ${width} and ${other}`, 'SHAPE_MISMATCH');
  const norms = ({ data }: RawTensor, rows: number) =>
    Float64Array.from({ length: rows }, (_, i) => Math.sqrt(dot(data, i, data, i, width)) || 1);
  if (n * m > MAX_SIZE) throw invalid('similarity', 'at most 2^31 - 1 pairs', `${n} times ${m}`, 'OUT_OF_MEMORY');
  const [na, nb] = [norms(x, n), norms(y, m)];
  const out = guarded('similarity', () => new Float32Array(n * m));
  for (let i = 0; i < n; i++)
    for (let j = 0; j < m; j++) out[i * m + j] = dot(x.data, i, y.data, j, width) / (na[i]! * nb[j]!);
  return new Tensor(out, [n, m]);
}

export interface Hit {
  /** Row of the corpus. */
  index: number;
  score: number;
}

export const searchSchema = { topK: optional(topCount, 10) };

/**
 * For each query [N,E] the `topK` (default 10) most similar rows of the corpus [M,E], best first. The search is exact.
 *
 * @example
 * const corpus = await model.embed(['a fox', 'interest rates']);
 * const [hits] = semanticSearch(await model.embed('an animal'), corpus, { topK: 1 });
 * hits[0].index; // 0
 */
export function semanticSearch(queries: TensorInput, corpus: TensorInput, options?: { topK?: number }): Hit[][] {
  const { topK } = readOptions('semanticSearch', searchSchema, options);
  const { data, shape } = similarity(queries, corpus);
  const [n, m] = shape as [number, number];
  return Array.from({ length: n }, (_, i) => best(data.subarray(i * m, (i + 1) * m), topK));
}

/** The `count` largest entries in descending order; equal ones in the order of their indices. */
export function best(scores: ArrayLike<number>, count: number): Hit[] {
  const hits: Hit[] = [];
  for (let index = 0; index < scores.length; index++) {
    const score = scores[index]!;
    if (hits.length === count && !(score > hits[count - 1]!.score)) continue;
    let at = hits.length;
    while (at > 0 && score > hits[at - 1]!.score) at--;
    hits.splice(at, 0, { index, score });
    if (hits.length > count) hits.pop();
  }
  return hits;
}

/** A matrix [rows, width]; refuses rows of width 0, whose number is arbitrary. */
export function readRows(name: string, value: unknown): RawTensor {
  const rows = readTensor(name, value);
  const { shape } = rows;
  if (shape.length !== 2 || (shape[1] === 0 && shape[0] !== 0))
    throw invalid(name, '[rows, width]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
  return rows;
}

function dot(a: Float32Array, i: number, b: Float32Array, j: number, width: number): number {
  let sum = 0;
  for (let k = 0; k < width; k++) sum += a[i * width + k]! * b[j * width + k]!;
  return sum;
}
