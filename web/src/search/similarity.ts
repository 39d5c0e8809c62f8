/** Similarity of vectors, and exhaustive search for the most similar ones. */
import { describe, guarded, invalid } from '../base/error.js';
import { optional, type Reader, readOptions, size, sizeOrInfinity } from '../base/options.js';
import { best, type Hit } from '../base/scores.js';
import { MAX_SIZE, read, readRows, requireMatrix, Tensor, type TensorInput } from '../base/tensor.js';
import { bitsOf, dot, normsOf, type Rows, type VectorOutput } from '../models/quantized.js';

/**
 * Cosine similarity of the rows of a [N,E] and b [M,E] (default: a): [N,M]. It is 0 for zero rows.
 *
 * @example
 * similarity(await model.embed(['a fox', 'a dog'])).toArray(); // [[1, 0.5], [0.5, 1]]
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

/**
 * The rows of a corpus: fp32 [M,E], or what `embed` returns for the outputs 'int8' [M,E] and 'binary' [M, ceil(E / 8)].
 */
export type Corpus = TensorInput | { readonly data: Int8Array | Uint8Array; readonly shape: readonly number[] };

export interface SearchOptions {
  /** The number of hits. Default 10. */
  topK?: number | undefined;
  /**
   * Score only the `rescoreMultiplier * topK` rows whose signs have the smallest Hamming distance to the query's.
   * Default 4 for bits. `semanticSearch` compares other corpora in full; for an index, see `TextIndex.search`.
   */
  rescoreMultiplier?: number | undefined;
}

export interface SemanticSearchOptions extends SearchOptions {
  /** For a corpus of bits: the same rows as fp32 or int8, which make the scores more accurate. */
  rescore?: Corpus | undefined;
  /**
   * The object that `load()` returned: runs the search in WebAssembly, on its threads, with a temporary copy of the
   * corpus. The hits are the same; scores may differ in their last digits. Searches with `rescore` or with vectors that
   * are not finite still run in JavaScript.
   */
  heed?: SearchingHeed | undefined;
}

/** The part of the object that `load()` returns which a search needs. */
export interface SearchingHeed {
  readonly TextIndex: object;
}

/**
 * The part of VectorStore that is used here. Not imported, because a search in JavaScript does not need that module.
 */
interface Store {
  append(rows: Rows): void;
  search(
    queries: Float32Array,
    options: { topK: number; threshold: number; candidates: number; allowed: null },
  ): Hit[][];
  dispose(): void;
}

interface StoreMaker {
  newStore(options: { output: VectorOutput; similarity: 'cosine' }): Store;
}

const heedOption: Reader<SearchingHeed> = (value, name) =>
  guarded(name, () => {
    const { newStore } = ((value as SearchingHeed | null)?.TextIndex ?? {}) as Partial<StoreMaker>;
    if (typeof newStore === 'function') return value as SearchingHeed;
    throw invalid(name, 'what `load()` returned', describe(value));
  });

export const searchSchema = { topK: optional(sizeOrInfinity, 10), rescoreMultiplier: optional(size, 0) };

/**
 * Finds, for each fp32 query [N,E], the `topK` rows of the corpus with the largest cosine similarity, best first. Bits
 * count as +1 and -1. fp32 and int8 corpora are compared in full. For a corpus of bits, the rows with the smallest
 * Hamming distance are selected first and then scored against the fp32 query (Yamada et al. 2021, arXiv:2106.00882);
 * `rescore`, the same rows as fp32 or int8, makes these scores more accurate.
 *
 * @example
 * const bits = await model.embed(texts, { output: 'binary' });
 * const rescore = await model.embed(texts, { output: 'int8' });
 * const [hits] = semanticSearch(await model.embed('a fox'), bits, { topK: 3, rescore });
 * @throws HeedError SHAPE_MISMATCH if the widths differ
 */
export function semanticSearch(queries: TensorInput, corpus: Corpus, options?: SemanticSearchOptions): Hit[][] {
  const rows = (value: unknown, name: string) => readCorpus(name, value);
  const schema = { ...searchSchema, rescore: optional(rows, null), heed: optional(heedOption, null) };
  const { topK, rescoreMultiplier, rescore, heed } = readOptions('semanticSearch', schema, options);
  const { data, count, width } = readFloatRows('queries', queries);
  const found = readCorpus('corpus', corpus);
  if (count === 0) return [];
  requireWidth('corpus', found, width);
  const exact = rescore ?? found;
  requireWidth('semanticSearch.rescore', exact, width);
  if (exact.count !== found.count)
    throw invalid('semanticSearch.rescore', `${found.count} rows, as the corpus`, `${exact.count}`, 'SHAPE_MISMATCH');
  const factors = exact.bits ? null : normsOf(exact.data, width).map((norm) => 1 / norm);
  const candidates = found.bits ? topK * (rescoreMultiplier || 4) : 0;
  // The WebAssembly search needs whole bytes of bits, and finite rows and norms.
  const fits = () => (found.bits ? width % 8 === 0 : allFinite(found.data) && factors!.every((factor) => factor > 0));
  if (heed && !rescore && found.count > 0 && count > 0 && allFinite(data) && fits())
    return searchIn(heed, found, data, topK, candidates);
  return Array.from({ length: count }, (_, n) => {
    const query = data.subarray(n * width, (n + 1) * width);
    const selected = found.bits ? nearestBits(query, found.data as Uint8Array, candidates) : null;
    return bestRows(query, exact, factors, topK, selected);
  });
}

/** Whether no entry is infinite or NaN: such an entry times 0 is NaN, any other is 0. */
function allFinite(data: ArrayLike<number>): boolean {
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

function searchIn(
  { TextIndex }: SearchingHeed,
  rows: Rows,
  queries: Float32Array,
  topK: number,
  candidates: number,
): Hit[][] {
  const output = rows.bits ? 'binary' : rows.data.BYTES_PER_ELEMENT === 4 ? 'float32' : 'int8';
  const store = (TextIndex as StoreMaker).newStore({ output, similarity: 'cosine' });
  try {
    store.append(rows);
    return store.search(queries, { topK, threshold: -Infinity, candidates, allowed: null });
  } finally {
    store.dispose();
  }
}

/** Reads fp32 rows. An empty array has no rows. */
export function readFloatRows(name: string, value: unknown): Rows & { data: Float32Array } {
  const isEmpty = guarded(name, () => Array.isArray(value) && value.length === 0);
  const { data, shape } = isEmpty ? { data: new Float32Array(), shape: [0, 0] } : readRows(name, value);
  return { data, count: shape[0]!, width: shape[1]!, bits: false };
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

/**
 * The `topK` rows with the highest scores, best first: of all rows, or of `candidates`, in ascending order. The score
 * is the dot product times the row's factor, divided by `norm`; bits, which count as +1 and -1, have no factors, but
 * are divided by the square root of the width.
 */
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
 * Dot products of a query with all rows or with `candidates`. There is one function per array type, because engines
 * compile such loops several times as fast. Four independent sums shorten the dependency chain.
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

/** Dot products of a query with all fp32 rows or with `candidates`. */
function floatProducts(
  query: Float32Array,
  data: Float32Array,
  candidates: Uint32Array | null,
  out: Float64Array,
): void {
  const width = query.length;
  for (let n = 0; n < out.length; n++) out[n] = dot(query, 0, data, candidates ? candidates[n]! : n, width);
}

/**
 * Selects the `count` rows of `codes`, or of `among`, with the smallest Hamming distance to the signs of a query; ties
 * keep the earlier row. Returns them in ascending order.
 */
export function nearestBits(
  query: Float32Array,
  codes: Uint8Array,
  count: number,
  among: Uint32Array | null = null,
): Uint32Array {
  const bits = bitsOf(query);
  const aligned = (bits.length | codes.byteOffset) % 4 === 0;
  const distances = aligned ? hamming(wordsOf(bits), wordsOf(codes)) : hamming(bits, codes);
  const rows = among?.length ?? distances.length;
  const rowAt = (n: number) => (among ? among[n]! : n);
  // Count the rows per distance, then find the largest selected distance and how many of its rows are selected.
  const counts = new Uint32Array(8 * bits.length + 1);
  for (let n = 0; n < rows; n++) counts[distances[rowAt(n)]!]!++;
  const found = new Uint32Array(Math.min(count, rows));
  let limit = 0;
  let left = found.length;
  for (; left > counts[limit]!; limit++) left -= counts[limit]!;
  for (let n = 0, at = 0; at < found.length; n++) {
    const distance = distances[rowAt(n)]!;
    if (distance < limit || (distance === limit && left-- > 0)) found[at++] = rowAt(n);
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
      // Sum the ones per byte over up to 31 words: at most 248, which fits into a byte.
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

/** The dot product with a row of bits, which count as +1 and -1. */
function signDot(query: Float32Array, bits: ArrayLike<number>, at: number): number {
  let sum = 0;
  for (let i = 0; i < query.length; i++) sum += bits[at + (i >> 3)]! & (128 >> (i & 7)) ? query[i]! : -query[i]!;
  return sum;
}
