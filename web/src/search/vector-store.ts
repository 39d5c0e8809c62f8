/** The storage of a TextIndex's vectors: in JavaScript arrays, here, or in WebAssembly memory (core-vectors.ts). */
import { formatShape, guarded, invalid } from '../base/error.js';
import type { Hit } from '../base/scores.js';
import { kindOf, Tensor } from '../base/tensor.js';
import { concatenate } from '../io/files.js';
import type { writeSafetensors } from '../io/safetensors.js';
import { inverse, normsOf, quantized, type Rows, signsOf, type VectorOutput } from '../models/quantized.js';
import { rowsIn } from './row-bits.js';
import { bestRows, type Corpus, nearestBits, readCorpus, requireFinite } from './similarity.js';
import type { IndexEntry, IndexedText } from './text-rows.js';

/** Options of a store's search. */
export interface StoreSearch {
  topK: number;
  /** The minimum score of a hit; -Infinity: no minimum. */
  threshold: number;
  /**
   * The number of rows to score: those whose signs have the smallest Hamming distance to the query's. 0: score all
   * rows.
   */
  candidates: number;
  /** A bitmap of rows that may be hits: row n is bit n % 32 of word n >> 5. null: all rows. */
  allowed: Uint32Array | null;
}

export const SIMILARITIES = ['cosine', 'dot'] as const;
export type Similarity = (typeof SIMILARITIES)[number];

/** The storage type of the vectors (null: int8, or bits if the first vectors are bits) and their similarity. */
export interface StoreOptions {
  output: VectorOutput | null;
  similarity: Similarity;
}

/** A growable list of vectors, all of one width and type. */
export interface VectorStore {
  readonly options: StoreOptions;
  readonly count: number;
  /** The number of stored entries per row: D, or D / 8 for bits. 0 before the first rows are added. */
  readonly width: number;
  readonly bits: boolean;
  /** Appends rows of the store's type. If it throws, the store is unchanged. */
  append(rows: Rows): void;
  /** Removes all rows except `kept`, in ascending order. */
  keep(kept: Uint32Array): void;
  /** The rows as stored. Must not be modified. */
  rows(): Rows['data'];
  /** For fp32 and int8, the factor of each row, for scores and for its values; empty for bits. */
  factors(): Float32Array;
  /** Finds the best rows for each query [N,D]. */
  search(queries: Float32Array, options: StoreSearch): Hit[][];
  dispose(): void;
}

/** The width D of the vectors. */
export const dimensionsOf = ({ width, bits }: { width: number; bits: boolean }): number => (bits ? 8 * width : width);

/** Iterates over queries of `width` entries. */
export function* eachQuery(queries: Float32Array, width: number): Generator<Float32Array> {
  for (let at = 0; at < queries.length; at += width) yield queries.subarray(at, at + width);
}

/** The vectors of some rows as they are stored. */
export interface StoredVectors {
  readonly options: StoreOptions;
  data: Rows['data'];
  count: number;
  width: number;
  bits: boolean;
  /** For fp32 and int8, the factor of each row; empty for bits. */
  factors: Float32Array;
}

/** The vectors of `rows`; null: of all. */
export function vectorsAt(store: VectorStore, rows: Uint32Array | null): StoredVectors {
  const { width, bits, options } = store;
  const [data, factors] = [store.rows(), store.factors()];
  if (!rows) return { options, data, count: store.count, width, bits, factors };
  const [some, own] = [data.slice(0, rows.length * width), new Float32Array(bits ? 0 : rows.length)];
  rows.forEach((row, n) => {
    some.set(data.subarray(row * width, (row + 1) * width), n * width);
    if (!bits) own[n] = factors[row]!;
  });
  return { options, data: some, count: rows.length, width, bits, factors: own };
}

/** The vectors as tensors of a safetensors file. */
export function vectorTensors(stored: StoredVectors): Parameters<typeof writeSafetensors>[0] {
  const { data, count, width, bits, options, factors } = stored;
  // A store without rows is written in the type that its first rows will have.
  const form = count > 0 ? (isFloat(data) ? 'float32' : bits ? 'binary' : 'int8') : (options.output ?? 'int8');
  const dtype = { float32: 'F32', int8: 'I8', binary: 'U8' }[form];
  const vectors = { name: 'vectors', dtype, shape: [count, width], data };
  if (dtype !== 'I8') return [vectors];
  return [{ name: 'vectors_scale', dtype: 'F32', shape: [count, 1], data: factors }, vectors];
}

const isFloat = (data: Rows['data']): data is Float32Array => data.BYTES_PER_ELEMENT === 4;

/** The maximum norm of fp32 vectors and queries with the similarity 'dot': it keeps scores finite. */
const MAX_LENGTH = 1e18;

/** Checks the norms of fp32 vectors, or the scales of int8 vectors. */
export function requireLengths(
  name: string,
  lengths: Float64Array | Float32Array,
  similarity: Similarity,
  code: 'INVALID_ARGUMENT' | 'INVALID_FILE',
): void {
  const [limit, expected] =
    similarity === 'dot'
      ? [MAX_LENGTH, 'finite vectors with a norm of at most 1e18']
      : [Number.MAX_VALUE, 'finite vectors'];
  const at = lengths.findIndex((length) => !(Math.abs(length) <= limit));
  if (at >= 0) throw invalid(name, expected, `${lengths[at]} in row ${at}`, code);
}

/** The number of rows to convert before yielding to the event loop: some milliseconds' work. */
const BLOCK = 4096;

/**
 * Converts rows in blocks and joins the results. `first` is the number of a block's first row. Calls `pause` before
 * each block.
 */
export async function inBlocks(
  rows: Rows,
  convert: (block: Rows, first: number) => Rows,
  pause: () => Promise<void>,
): Promise<Rows> {
  const { data, count, width, scales } = rows;
  const parts: Rows[] = [];
  for (let first = 0; first === 0 || first < count; first += BLOCK) {
    await pause();
    const end = Math.min(first + BLOCK, count);
    const block = { ...rows, data: data.subarray(first * width, end * width), count: end - first };
    parts.push(convert(scales ? { ...block, scales: scales.subarray(first, end) } : block, first));
  }
  const [one] = parts as [Rows, ...Rows[]];
  if (parts.length === 1) return one;
  const joined = <A extends Rows['data']>(each: A[]) =>
    concatenate(each[0]!.constructor as new (length: number) => A, each);
  const whole = { ...one, count, data: joined(parts.map((part) => part.data)) };
  return one.factors ? { ...whole, factors: joined(parts.map((part) => part.factors!)) } : whole;
}

/** Converts rows to the store's type. `first`: the number of the first row, for messages. */
export function inForm(store: VectorStore, given: Rows, first = 0): Rows {
  const { data, count, width, bits, scales } = given;
  requireFinite('vectors', data, first * width);
  const { output, similarity } = store.options;
  const dimensions = dimensionsOf(store) || dimensionsOf(given);
  if (count > 0 && dimensionsOf(given) !== dimensions)
    throw invalid(
      'vectors',
      `${dimensions} entries per row, as in the index`,
      `shape ${formatShape([count, width])}`,
      'SHAPE_MISMATCH',
    );
  const keepsBits = store.count > 0 ? store.bits : (output ?? (bits ? 'binary' : 'int8')) === 'binary';
  if (keepsBits && !bits && width % 8 > 0)
    throw invalid('vectors', "a multiple of 8 entries per row for output 'binary'", `${width}`, 'SHAPE_MISMATCH', {
      hint: "Leave out the last entries, or use output 'int8'",
    });
  if (bits && !keepsBits) throw invalid('vectors', 'fp32 or int8 vectors, like those of the index', 'binary vectors');
  if (keepsBits && similarity === 'dot')
    throw invalid('vectors', "fp32 or int8 vectors for similarity 'dot'", 'binary vectors');
  if (!bits && !isFloat(data) && similarity === 'dot' && scales?.length !== count)
    throw invalid('vectors', "int8 vectors with their scales for similarity 'dot'", 'int8 vectors without scales');
  const values = new Tensor(data as Float32Array, [count, width]);
  if (keepsBits) {
    const codes = bits ? given : quantized(values, 'binary');
    return { data: codes.data as Uint8Array, count, width: bits ? width : width / 8, bits: true };
  }
  if (isFloat(data) && similarity === 'dot')
    requireLengths('vectors', normsOf(data, width), similarity, 'INVALID_ARGUMENT');
  if (output !== 'float32') return stored(isFloat(data) ? { ...given, ...int8Rows(values) } : given, store.options);
  if (isFloat(data)) return stored(given, store.options);
  const floats = Float32Array.from(data);
  if (scales) for (let i = 0; i < floats.length; i++) floats[i]! *= scales[Math.floor(i / width)]!;
  return stored({ ...given, data: floats }, store.options);
}

function int8Rows(values: Tensor): Pick<Rows, 'data' | 'scales'> {
  const { data, scales } = quantized(values, 'int8');
  return { data, scales };
}

/** Norms between which fp32 arithmetic neither overflows nor loses precision, in squares and in products with int8. */
const [SHORTEST, LONGEST] = [2 ** -40, 2 ** 40];

/**
 * The power of two by which to multiply a vector of this norm before computing its cosines in fp32, which does not
 * change them. 1 unless the norm is extreme.
 */
export function powerFor(length: number): number {
  return length >= SHORTEST && length <= LONGEST ? 1 : 2 ** -Math.floor(Math.log2(length));
}

/** Adds the factors of rows. For the cosine, also scales fp32 rows of extreme norms. */
export function stored(rows: Rows, { similarity }: StoreOptions): Rows & { factors: Float32Array } {
  const { data, count, width, bits, factors } = rows;
  if (factors) return { ...rows, factors };
  if (bits) return { ...rows, factors: new Float32Array() };
  if (similarity === 'dot')
    return { ...rows, factors: isFloat(data) ? new Float32Array(count).fill(1) : rows.scales!.slice(0, count) };
  const lengths = normsOf(data.subarray(0, count * width), width);
  if (!isFloat(data) || lengths.every((length) => powerFor(length) === 1))
    return { ...rows, factors: Float32Array.from(lengths, inverse) };
  const powers = lengths.map(powerFor);
  return {
    ...rows,
    data: data.map((v, i) => v * powers[Math.floor(i / width)]!),
    factors: Float32Array.from(lengths, (length, n) => inverse(length * powers[n]!)),
  };
}

export class ArrayStore implements VectorStore {
  /** The stored rows. The arrays may have spare capacity. */
  #rows = { data: new Int8Array() as Rows['data'], count: 0, width: 0, bits: false };
  #factors: Float32Array = new Float32Array();
  /** The signs of fp32 or int8 rows, computed when a search first needs them. */
  #signs: Uint8Array | null = null;
  readonly options: StoreOptions;

  constructor(options: StoreOptions) {
    this.options = options;
  }

  get count(): number {
    return this.#rows.count;
  }

  get width(): number {
    return this.#rows.count === 0 ? 0 : this.#rows.width;
  }

  get bits(): boolean {
    return this.#rows.bits;
  }

  append(given: Rows): void {
    const { data, count, width } = this.#rows;
    const more = stored(given, this.options);
    const isFirst = count === 0;
    const signBytes = Math.ceil(more.width / 8);
    const all = isFirst ? more.data.slice(0, more.count * more.width) : appended(data, count * width, more.data);
    const factors = appended(isFirst ? new Float32Array() : this.#factors, more.bits ? 0 : count, more.factors);
    const signs = this.#signs && !isFirst ? appended(this.#signs, count * signBytes, signsOf(more)) : null;
    this.#rows = { data: all, count: count + more.count, width: more.width, bits: more.bits };
    this.#factors = factors;
    this.#signs = signs;
  }

  keep(kept: Uint32Array): void {
    const { data, width, bits } = this.#rows;
    keepRows(data, width, kept);
    if (!bits) keepRows(this.#factors, 1, kept);
    if (this.#signs) keepRows(this.#signs, Math.ceil(width / 8), kept);
    this.#rows.count = kept.length;
  }

  rows(): Rows['data'] {
    const { data, count, width } = this.#rows;
    return data.subarray(0, count * width);
  }

  factors(): Float32Array {
    return this.#factors.subarray(0, this.bits ? 0 : this.count);
  }

  search(queries: Float32Array, { topK, threshold, candidates, allowed }: StoreSearch): Hit[][] {
    const rows = this.#rows;
    const own = allowed && rowsIn(allowed);
    return Array.from(eachQuery(queries, dimensionsOf(rows)), (query) => {
      const among = candidates > 0 ? nearestBits(query, this.#allSigns(), candidates, own) : own;
      const factors = rows.bits ? null : this.#factors;
      const norm = this.options.similarity === 'dot' ? 1 : undefined;
      return bestRows(query, rows, factors, topK, among, norm).filter(({ score }) => score >= threshold);
    });
  }

  #allSigns(): Uint8Array {
    const rows = this.#rows;
    if (!rows.bits) this.#signs ??= signsOf(rows);
    return (this.#signs ?? (rows.data as Uint8Array)).subarray(0, rows.count * Math.ceil(dimensionsOf(rows) / 8));
  }

  dispose(): void {}
}

/** Appends `more` to the `used` entries of `array`, in place if its capacity suffices, else in a larger copy. */
export function appended<A extends Rows['data']>(array: A, used: number, more: A): A {
  const end = used + more.length;
  let out = array;
  if (end > array.length) {
    out = new (array.constructor as new (length: number) => A)(Math.max(end, Math.ceil(1.25 * used)));
    out.set(array.subarray(0, used));
  }
  out.set(more, used);
  return out;
}

/** Moves the rows `kept`, in ascending order, to the front. */
export function keepRows(array: Rows['data'], width: number, kept: Uint32Array): void {
  kept.forEach((row, at) => {
    if (row > at) array.copyWithin(at * width, row * width, (row + 1) * width);
  });
}

/** The vectors [N,D] as numbers: rounded and, for the cosine, scaled to unit norm. */
export function vectorTensor(stored: StoredVectors): Tensor {
  const { data, factors, count, bits } = stored;
  const width = count === 0 ? 0 : dimensionsOf(stored);
  const bit = (i: number) => (data[i >> 3]! & (128 >> (i & 7)) ? 1 : -1) / Math.sqrt(width);
  const values = Float32Array.from({ length: count * width }, (_, i) =>
    bits ? bit(i) : data[i]! * factors[Math.floor(i / width)]!,
  );
  return new Tensor(values, [count, width]);
}

/** Joins texts with their vectors. */
export function* eachEntry(texts: readonly IndexedText[], stored: StoredVectors): Generator<IndexEntry, void> {
  const { data, width, bits, factors } = stored;
  for (let n = 0; n < texts.length; n++) {
    const row = data.subarray(n * width, (n + 1) * width);
    const { data: vector } = vectorTensor({
      ...stored,
      data: row,
      count: 1,
      factors: bits ? factors : factors.subarray(n, n + 1),
    });
    yield { ...texts[n]!, vector };
  }
}

/** Checks the vectors of texts. */
export function readVectors(texts: string[], vectors: Corpus): Rows {
  const rows = readCorpus('vectors', vectors);
  const scales = guarded('vectors', () => (vectors as { scales?: unknown }).scales);
  if (kindOf(scales) === 'Float32Array') rows.scales = scales as Float32Array;
  const { count, width } = rows;
  if (count !== texts.length)
    throw invalid(
      'vectors',
      `[${texts.length}, width], one row per text`,
      `shape ${formatShape([count, width])}`,
      'SHAPE_MISMATCH',
    );
  return rows;
}

/** Copies vectors and their scales. */
export function copiedRows({ data, scales, ...rest }: Rows): Rows {
  return guarded('vectors', () => ({ ...rest, data: data.slice(), ...(scales && { scales: scales.slice() }) }));
}
