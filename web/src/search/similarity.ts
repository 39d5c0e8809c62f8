/** Similarity of vectors, and exhaustive search for the most similar ones. */
import { describe, guarded, invalid } from '../base/error.js';
import { formerly, optional, type Reader, readOptions, size, sizeOrInfinity } from '../base/options.js';
import { best, type Hit } from '../base/scores.js';
import { MAX_SIZE, readRows, Tensor, type TensorInput } from '../base/tensor.js';
import { bitsOf, dot, normsOf, type Rows } from '../models/quantized.js';
import { allFinite, type Corpus, readCorpus, readFloatRows, requireWidth } from './rows.js';
import type { StoreOptions } from './stored-vectors.js';
import type { VectorStore } from './vector-store.js';

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

export interface SearchOptions {
  /** The number of hits. Default 10. */
  topK?: number | undefined;
  /**
   * The number of candidates per hit: score only the `candidates * topK` rows whose signs have the smallest Hamming
   * distance to the query's. Default 4 for bits. `semanticSearch` compares other corpora in full; for an index, see
   * `TextIndex.search`.
   */
  candidates?: number | undefined;
}

/** Options of `semanticSearch`. */
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

/** The part of `TextIndex` that is used here. */
interface StoreMaker {
  newStore(options: StoreOptions): VectorStore;
}

const heedOption: Reader<StoreMaker> = (value, name) =>
  guarded(name, () => {
    const { TextIndex } = (value ?? {}) as { TextIndex?: StoreMaker | undefined };
    if (typeof TextIndex?.newStore === 'function') return TextIndex;
    throw invalid(name, 'what `load()` returned', describe(value));
  });

export const searchSchema = {
  topK: optional(sizeOrInfinity, 10),
  candidates: optional(size, 0),
  ...(formerly({ rescoreMultiplier: 'candidates' }) as object),
};

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
  const { topK, candidates, rescore, heed } = readOptions('semanticSearch', schema, options);
  const { data, count, width } = readFloatRows('queries', queries);
  const found = readCorpus('corpus', corpus);
  if (count === 0) return [];
  requireWidth('corpus', found, width);
  const exact = rescore ?? found;
  requireWidth('semanticSearch.rescore', exact, width);
  if (exact.count !== found.count)
    throw invalid('semanticSearch.rescore', `${found.count} rows, as the corpus`, `${exact.count}`, 'SHAPE_MISMATCH');
  const factors = exact.bits ? null : normsOf(exact.data, width).map((norm) => 1 / norm);
  const selected = found.bits ? topK * (candidates || 4) : 0;
  // The WebAssembly search needs whole bytes of bits, and finite rows and norms.
  const fits = () => (found.bits ? width % 8 === 0 : allFinite(found.data) && factors!.every((factor) => factor > 0));
  if (heed && !rescore && found.count > 0 && count > 0 && allFinite(data) && fits()) {
    const storage = found.bits ? 'binary' : found.data.BYTES_PER_ELEMENT === 4 ? 'float32' : 'int8';
    const store = heed.newStore({ storage, similarity: 'cosine' });
    try {
      store.append(found);
      return store.search(data, { topK, threshold: -Infinity, candidates: selected, allowed: null });
    } finally {
      store.dispose();
    }
  }
  return Array.from({ length: count }, (_, n) => {
    const query = data.subarray(n * width, (n + 1) * width);
    const among = found.bits ? nearestBits(query, found.data as Uint8Array, selected) : null;
    return bestRows(query, exact, factors, topK, among);
  });
}

/**
 * The `topK` rows with the highest cosines, best first: of all rows, or of `candidates`, in ascending order. `factors`:
 * the inverse norms of the rows; null for bits, which count as +1 and -1.
 */
function bestRows(
  query: Float32Array,
  { data, count, width, bits }: Rows,
  factors: ArrayLike<number> | null,
  topK: number,
  candidates: Uint32Array | null,
): Hit[] {
  const norm = normsOf(query, query.length)[0]!;
  const scale = bits ? norm * Math.sqrt(query.length) : norm;
  const productWith = bits
    ? (row: number) => signDot(query, data, row * width)
    : data.BYTES_PER_ELEMENT === 4
      ? (row: number) => dot(query, 0, data, row, width)
      : (row: number) => int8Dot(query, data as Int8Array, row * width);
  const scores = new Float64Array(candidates?.length ?? count);
  const rowAt = (i: number) => (candidates ? candidates[i]! : i);
  for (let i = 0; i < scores.length; i++) scores[i] = productWith(rowAt(i)) * ((factors?.[rowAt(i)] ?? 1) / scale);
  return best(scores, topK).map(({ index, score }) => ({ index: rowAt(index), score: Math.fround(score) }));
}

/**
 * The dot product with an int8 row. As `dot`, which engines compile several times as fast if they never see both types.
 */
function int8Dot(query: Float32Array, data: Int8Array, at: number): number {
  const even = query.length - (query.length % 4);
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
  for (let x = even; x < query.length; x++) p += query[x]! * data[at + x]!;
  return p + q + (r + s);
}

/**
 * Selects the `count` rows of `codes` with the smallest Hamming distance to the signs of a query; ties keep the earlier
 * row. Returns them in ascending order.
 */
function nearestBits(query: Float32Array, codes: Uint8Array, count: number): Uint32Array {
  const bits = bitsOf(query);
  const aligned = (bits.length | codes.byteOffset) % 4 === 0;
  const distances = aligned ? hamming(wordsOf(bits), wordsOf(codes)) : hamming(bits, codes);
  // Count the rows per distance, then find the largest selected distance and how many of its rows are selected.
  const counts = new Uint32Array(8 * bits.length + 1);
  for (const distance of distances) counts[distance]!++;
  const found = new Uint32Array(Math.min(count, distances.length));
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
