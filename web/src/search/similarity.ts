/** Similarity of vectors, and the search for the most similar ones. */

import { describe, guarded, invalid } from '../base/error.js';
import { optional, type Reader, readOptions, size, sizeOrInfinity } from '../base/options.js';
import { best, type Hit } from '../base/scores.js';
import { MAX_SIZE, read, readRows, requireMatrix, Tensor, type TensorInput } from '../base/tensor.js';
import { bitsOf, dot, normsOf, type Rows, type VectorOutput } from '../models/quantized.js';

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
  if (n * m > MAX_SIZE) throw invalid('similarity', 'at most 2^31 - 1 pairs', `${n} times ${m}`, 'OUT_OF_MEMORY');
  const [nx, ny] = [normsOf(x.data, width), normsOf(y.data, width)];
  const out = guarded('similarity', () => new Float32Array(n * m));
  for (let i = 0; i < n; i++)
    for (let j = 0; j < m; j++) out[i * m + j] = dot(x.data, i, y.data, j, width) / (nx[i]! * ny[j]!);
  return new Tensor(out, [n, m]);
}

/** Rows that a search compares with: fp32 [M,E], or what `embed` returns for the outputs 'int8' [M,E] and 'binary' [M, ceil(E / 8)]. */
export type Corpus = TensorInput | { readonly data: Int8Array | Uint8Array; readonly shape: readonly number[] };

export interface SearchOptions {
  /** The number of hits. Default 10. */
  topK?: number;
  /** Of how many times `topK` rows, those whose signs differ least from the query's, the scores are computed. Default 4 for bits; without bits, all rows are compared. */
  rescoreMultiplier?: number;
}

export interface SemanticSearchOptions extends SearchOptions {
  /** The rows of the corpus as fp32 or int8, from which the scores are computed if the corpus consists of bits. */
  rescore?: Corpus;
  /**
   * What `load()` returned: the search runs in WebAssembly, on its threads, into whose memory the corpus is copied meanwhile. Same hits; scores may differ in their last digits. Searches
   * with `rescore`, and of vectors that are not finite, run in JavaScript as without it.
   */
  runtime?: SearchRuntime;
}

/** What `load()` returns. */
export interface SearchRuntime {
  readonly TextIndex: object;
}

/** As VectorStore, whose module a search in JavaScript does without. */
interface Store {
  append(rows: Rows): void;
  search(
    queries: Float32Array,
    options: { topK: number; threshold: number; candidates: number; allowed: null },
  ): Hit[][];
  dispose(): void;
}

interface StoreMaker {
  newStore(options: { dtype: VectorOutput; similarity: 'cosine' }): Store;
}

const runtimeOption: Reader<SearchRuntime> = (value, name) =>
  guarded(name, () => {
    const { newStore } = ((value as SearchRuntime | null)?.TextIndex ?? {}) as Partial<StoreMaker>;
    if (typeof newStore === 'function') return value as SearchRuntime;
    throw invalid(name, 'what `load()` returned', describe(value));
  });

export const searchSchema = { topK: optional(sizeOrInfinity, 10), rescoreMultiplier: optional(size, 0) };

/**
 * For each query [N,E] (fp32) the `topK` most similar rows of the corpus, best first, by cosine; bits count as +1 and -1.
 * fp32 and int8 rows are all compared. Of a corpus of bits, the rows with the smallest Hamming distance are selected first and then compared with the fp32 query (Yamada et al. 2021,
 * arXiv:2106.00882); `rescore`, the same rows as fp32 or int8, makes these scores more accurate.
 *
 * @example
 * const bits = await model.embed(texts, { output: 'binary' });
 * const rescore = await model.embed(texts, { output: 'int8' });
 * const [hits] = semanticSearch(await model.embed('a fox'), bits, { topK: 3, rescore });
 * @throws HeedError SHAPE_MISMATCH if the widths do not fit
 */
export function semanticSearch(queries: TensorInput, corpus: Corpus, options?: SemanticSearchOptions): Hit[][] {
  const rows = (value: unknown, name: string) => readCorpus(name, value);
  const schema = { ...searchSchema, rescore: optional(rows, null), runtime: optional(runtimeOption, null) };
  const { topK, rescoreMultiplier, rescore, runtime } = readOptions('semanticSearch', schema, options);
  const { data, shape } = readRows('queries', queries);
  const [count, width] = shape as [number, number];
  const found = readCorpus('corpus', corpus);
  requireWidth('corpus', found, width);
  const exact = rescore ?? found;
  requireWidth('semanticSearch.rescore', exact, width);
  if (exact.count !== found.count)
    throw invalid('semanticSearch.rescore', `${found.count} rows, as the corpus`, `${exact.count}`, 'SHAPE_MISMATCH');
  const factors = exact.bits ? null : normsOf(exact.data, width).map((norm) => 1 / norm);
  const candidates = found.bits ? topK * (rescoreMultiplier || 4) : 0;
  // The core has bits in whole bytes, and refuses what is not finite.
  const fits = () => (found.bits ? width % 8 === 0 : allFinite(found.data) && factors!.every((factor) => factor > 0));
  if (runtime && !rescore && found.count > 0 && count > 0 && allFinite(data) && fits())
    return searchIn(runtime, found, data, topK, candidates);
  return Array.from({ length: count }, (_, n) => {
    const query = data.subarray(n * width, (n + 1) * width);
    const selected = found.bits ? nearestBits(query, found.data as Uint8Array, candidates) : null;
    return bestRows(query, exact, factors, topK, selected);
  });
}

/** Whether no entry is infinite or NaN: their product with 0 is NaN, that of every other number is 0. */
function allFinite(data: ArrayLike<number>): boolean {
  let sum = 0;
  for (let i = 0; i < data.length; i++) sum += data[i]! * 0;
  return sum === 0;
}

/** Refuses NaN and infinities. `first`: the number of the first entry. */
export function requireFinite(name: string, data: ArrayLike<number>, first = 0): void {
  if (allFinite(data)) return;
  const at = Array.prototype.findIndex.call(data, (v: number) => !Number.isFinite(v));
  throw invalid(name, 'finite numbers', `${data[at]} at entry ${first + at}`);
}

function searchIn(
  { TextIndex }: SearchRuntime,
  rows: Rows,
  queries: Float32Array,
  topK: number,
  candidates: number,
): Hit[][] {
  const dtype = rows.bits ? 'binary' : rows.data.BYTES_PER_ELEMENT === 4 ? 'float32' : 'int8';
  const store = (TextIndex as StoreMaker).newStore({ dtype, similarity: 'cosine' });
  try {
    store.append(rows);
    return store.search(queries, { topK, threshold: -Infinity, candidates, allowed: null });
  } finally {
    store.dispose();
  }
}

export function readCorpus(name: string, value: unknown): Rows {
  const kind = guarded(name, () => (value as { data?: Int8Array } | null)?.data?.[Symbol.toStringTag] as string);
  if (kind !== 'Int8Array' && kind !== 'Uint8Array') {
    const { data, shape } = readRows(name, value);
    return { data, count: shape[0]!, width: shape[1]!, bits: false };
  }
  const entries = { Store: Int8Array, entryOf: () => null, entries: '' }; // of nested arrays, which it is not
  const { data, shape } = read(name, value, `an ${kind} tensor`, `an ${kind}`, entries);
  requireMatrix(name, shape);
  return { data, count: shape[0]!, width: shape[1]!, bits: kind === 'Uint8Array' };
}

function requireWidth(name: string, { width, bits, count }: Rows, dimensions: number): void {
  const expected = bits ? Math.ceil(dimensions / 8) : dimensions;
  if (count > 0 && width !== expected)
    throw invalid(
      name,
      `rows of ${expected} ${bits ? 'bytes' : 'entries'} for queries of ${dimensions}`,
      `${width}`,
      'SHAPE_MISMATCH',
    );
}

/** The rows nearest to a query, best first: of all, or of `candidates`, in ascending order. Scores are products divided by `norm` and times the row's factor, which bits have none of. */
export function bestRows(
  query: Float32Array,
  { data, count, width, bits }: Rows,
  factors: ArrayLike<number> | null,
  topK: number,
  candidates: Uint32Array | null,
  norm: number = normsOf(query, query.length)[0]!,
): Hit[] {
  let scores: Float64Array;
  if (bits) {
    const scale = norm * Math.sqrt(query.length);
    scores = Float64Array.from(
      candidates ?? { length: count },
      (row, i) => signDot(query, data, (row ?? i) * width) / scale,
    );
  } else {
    scores = new Float64Array(candidates?.length ?? count);
    if (data.BYTES_PER_ELEMENT === 4) floatProducts(query, data as Float32Array, candidates, scores);
    else int8Products(query, data as Int8Array, candidates, scores);
    for (let i = 0; i < scores.length; i++) scores[i]! *= factors![candidates ? candidates[i]! : i]! / norm;
  }
  return best(scores, topK).map(({ index, score }) => ({
    index: candidates ? candidates[index]! : index,
    score: Math.fround(score),
  }));
}

/**
 * The products of a query with rows, or with `candidates` among them. One function per type of array: engines compile loops over a single one several times as fast. In four
 * sums, which do not wait for each other.
 */
function int8Products(query: Float32Array, data: Int8Array, candidates: Uint32Array | null, out: Float64Array): void {
  const width = query.length;
  const even = width - (width % 4);
  for (let n = 0; n < out.length; n++) {
    const at = (candidates ? candidates[n]! : n) * width;
    let p = 0;
    let q = 0;
    let r = 0;
    let s = 0;
    for (let x = 0; x < even; x += 4) {
      const y = at + x;
      p += query[x]! * data[y]!;
      q += query[x + 1]! * data[y + 1]!;
      r += query[x + 2]! * data[y + 2]!;
      s += query[x + 3]! * data[y + 3]!;
    }
    for (let x = even; x < width; x++) p += query[x]! * data[at + x]!;
    out[n] = p + q + (r + s);
  }
}

/** The same for rows of floats. */
function floatProducts(
  query: Float32Array,
  data: Float32Array,
  candidates: Uint32Array | null,
  out: Float64Array,
): void {
  const width = query.length;
  for (let n = 0; n < out.length; n++) out[n] = dot(query, 0, data, candidates ? candidates[n]! : n, width);
}

/** The `count` rows of `codes` with the smallest Hamming distance to the signs of a query, of equal ones the first, in ascending order. */
export function nearestBits(query: Float32Array, codes: Uint8Array, count: number): Uint32Array {
  const bits = bitsOf(query);
  const aligned = (bits.length | codes.byteOffset) % 4 === 0;
  const distances = aligned ? hamming(wordsOf(bits), wordsOf(codes)) : hamming(bits, codes);
  const rows = distances.length;
  // How many rows have each distance; then which distance is the largest selected, and how many rows of it.
  const counts = new Uint32Array(8 * bits.length + 1);
  for (let n = 0; n < rows; n++) counts[distances[n]!]!++;
  const found = new Uint32Array(Math.min(count, rows));
  let limit = 0;
  let left = found.length;
  for (; left > counts[limit]!; limit++) left -= counts[limit]!;
  for (let n = 0, at = 0; at < found.length; n++) {
    const distance = distances[n]!;
    if (distance < limit || (distance === limit && left-- > 0)) found[at++] = n;
  }
  return found;
}

const wordsOf = ({ buffer, byteOffset, length }: Uint8Array) => new Int32Array(buffer, byteOffset, length >> 2);

/** The number of bits in which `query` and each row of `codes` differ. */
function hamming(query: Int32Array | Uint8Array, codes: Int32Array | Uint8Array): Uint32Array {
  const width = query.length;
  const distances = new Uint32Array(codes.length / width || 0);
  for (let n = 0, at = 0; n < distances.length; n++) {
    let distance = 0;
    for (let i = 0; i < width; ) {
      // The ones of each byte of up to 31 words: at most 248, so that a byte holds them.
      let ones = 0;
      for (const end = Math.min(width, i + 31); i < end; i++, at++) {
        let word = query[i]! ^ codes[at]!;
        word -= (word >>> 1) & 0x55555555;
        word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
        ones += (word + (word >>> 4)) & 0x0f0f0f0f;
      }
      ones = (ones & 0xff00ff) + ((ones >>> 8) & 0xff00ff);
      distance += (ones + (ones >>> 16)) & 0xffff;
    }
    distances[n] = distance;
  }
  return distances;
}

/** The product with a row of bits, as +1 and -1. */
function signDot(query: Float32Array, bits: ArrayLike<number>, at: number): number {
  let sum = 0;
  for (let i = 0; i < query.length; i++) sum += bits[at + (i >> 3)]! & (128 >> (i & 7)) ? query[i]! : -query[i]!;
  return sum;
}
