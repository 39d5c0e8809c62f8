/** Where a TextIndex keeps its vectors: in JavaScript's arrays, as here, or in the core (core-vectors.ts). */

import { formatShape, invalid } from '../base/error.js';
import type { Hit } from '../base/scores.js';
import { Tensor } from '../base/tensor.js';
import { concatenate } from '../io/files.js';
import type { writeSafetensors } from '../io/safetensors.js';
import { inverse, normsOf, quantized, type Rows, signsOf, type VectorOutput } from '../models/quantized.js';
import { bestRows, nearestBits, requireFinite } from './similarity.js';

/** How a store searches. */
export interface StoreSearch {
  topK: number;
  /** The least score of a hit; -Infinity: none. */
  threshold: number;
  /** Of how many rows, those whose signs differ least from the query's, the scores are computed; 0: of all. */
  candidates: number;
  /** Bit n % 32 of word n >> 5: whether row n may be a hit; null: all may. */
  allowed: Uint32Array | null;
}

export const SIMILARITIES = ['cosine', 'dot'] as const;
export type Similarity = (typeof SIMILARITIES)[number];

/** How vectors are stored (null: as int8, or as bits if the first ones are bits), and what their scores are. */
export interface StoreOptions {
  dtype: VectorOutput | null;
  similarity: Similarity;
}

/** N rows of a width in one form. */
export interface VectorStore {
  readonly options: StoreOptions;
  readonly count: number;
  /** Entries of a row as it is stored: D, or D / 8 for bits. 0 before the first rows. */
  readonly width: number;
  readonly bits: boolean;
  /** Appends rows of the store's form. After an error, the store has none of them. */
  append(rows: Rows): void;
  /** Removes all rows but these, which ascend. */
  keep(kept: Uint32Array): void;
  /** The rows as they are stored, which must not be changed. */
  rows(): Rows['data'];
  /** For each row of fp32 or int8 what its entries are multiplied by, in scores and for the value; none for bits. */
  factors(): Float32Array;
  /** For each query [N,D], the best rows. */
  search(queries: Float32Array, options: StoreSearch): Hit[][];
  dispose(): void;
}

/** D */
export const dimensionsOf = ({ width, bits }: { width: number; bits: boolean }): number => (bits ? 8 * width : width);

/** Each of the queries, of `width` entries. */
export function* eachQuery(queries: Float32Array, width: number): Generator<Float32Array> {
  for (let at = 0; at < queries.length; at += width) yield queries.subarray(at, at + width);
}

/** The tensors of a file with the vectors. */
export function vectorTensors(store: VectorStore): Parameters<typeof writeSafetensors>[0] {
  const { count, width, bits, options } = store;
  const data = store.rows();
  // Without rows, by the form that the next ones will have.
  const form = count > 0 ? (isFloat(data) ? 'float32' : bits ? 'binary' : 'int8') : (options.dtype ?? 'int8');
  const dtype = { float32: 'F32', int8: 'I8', binary: 'U8' }[form];
  const vectors = { name: 'vectors', dtype, shape: [count, width], data };
  if (dtype !== 'I8') return [vectors];
  return [{ name: 'vectors_scale', dtype: 'F32', shape: [count, 1], data: store.factors() }, vectors];
}

const isFloat = (data: Rows['data']): data is Float32Array => data.BYTES_PER_ELEMENT === 4;

/** The longest fp32 vectors and queries of an index of products: scores are then finite. */
const MAX_LENGTH = 1e18;

/** Checks the lengths of fp32 vectors, or the scales of int8 ones. */
export function requireLengths(
  name: string,
  lengths: Float64Array | Float32Array,
  similarity: Similarity,
  code: 'INVALID_ARGUMENT' | 'INVALID_FILE',
): void {
  const [limit, expected] =
    similarity === 'dot' ? [MAX_LENGTH, 'finite vectors of length 1e18 at most'] : [Number.MAX_VALUE, 'finite vectors'];
  const at = lengths.findIndex((length) => !(Math.abs(length) <= limit));
  if (at >= 0) throw invalid(name, expected, `${lengths[at]} in row ${at}`, code);
}

/** Rows that are converted before the event loop has its turn: some milliseconds. */
const BLOCK = 4096;

/** What `convert` returns for blocks of rows, one after the other; `first` is the number of a block's first row. `pause` is called before each. */
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

/** Rows in the form of a store: those of its other rows, or what its options say. `first`: the number of the first row, for messages. */
export function inForm(store: VectorStore, given: Rows, first = 0): Rows {
  const { data, count, width, bits, scales } = given;
  requireFinite('vectors', data, first * width);
  const { dtype, similarity } = store.options;
  const dimensions = dimensionsOf(store) || dimensionsOf(given);
  if (count > 0 && dimensionsOf(given) !== dimensions)
    throw invalid(
      'vectors',
      `${dimensions} entries per row, as in the index`,
      `shape ${formatShape([count, width])}`,
      'SHAPE_MISMATCH',
    );
  const keepsBits = store.count > 0 ? store.bits : (dtype ?? (bits ? 'binary' : 'int8')) === 'binary';
  if (keepsBits && !bits && width % 8 > 0)
    throw invalid('vectors', "a multiple of 8 entries per row for dtype 'binary'", `${width}`, 'SHAPE_MISMATCH', {
      hint: "Leave out the last entries, or use dtype 'int8'",
    });
  if (bits && !keepsBits) throw invalid('vectors', 'fp32 or int8 vectors, as those of the index', 'bits');
  if (keepsBits && similarity === 'dot') throw invalid('vectors', "fp32 or int8 vectors for similarity 'dot'", 'bits');
  if (!bits && !isFloat(data) && similarity === 'dot' && scales?.length !== count)
    throw invalid('vectors', "int8 vectors with their scales for similarity 'dot'", 'none');
  const values = new Tensor(data as Float32Array, [count, width]);
  if (keepsBits) {
    const codes = bits ? given : quantized(values, 'binary');
    return { data: codes.data as Uint8Array, count, width: bits ? width : width / 8, bits: true };
  }
  if (isFloat(data) && similarity === 'dot')
    requireLengths('vectors', normsOf(data, width), similarity, 'INVALID_ARGUMENT');
  if (dtype !== 'float32') return stored(isFloat(data) ? { ...given, ...int8Rows(values) } : given, store.options);
  if (isFloat(data)) return stored(given, store.options);
  const floats = Float32Array.from(data);
  if (scales) for (let i = 0; i < floats.length; i++) floats[i]! *= scales[Math.floor(i / width)]!;
  return stored({ ...given, data: floats }, store.options);
}

function int8Rows(values: Tensor): Pick<Rows, 'data' | 'scales'> {
  const { data, scales } = quantized(values, 'int8');
  return { data, scales };
}

/** Powers of two between which arithmetic in fp32 neither overflows nor loses digits: squares, and products with int8. */
const [SHORTEST, LONGEST] = [2 ** -40, 2 ** 40];

/** A power of two by which a vector of this length is multiplied before its cosines are computed in fp32: it leaves them as they are. 1 unless the length is extreme. */
export function powerFor(length: number): number {
  return length >= SHORTEST && length <= LONGEST ? 1 : 2 ** -Math.floor(Math.log2(length));
}

/** Rows with their factors, as a store keeps them. For cosines, extremely short and long rows of fp32 are scaled. */
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
  /** The arrays may have room for further rows. */
  #rows = { data: new Int8Array() as Rows['data'], count: 0, width: 0, bits: false };
  #factors: Float32Array = new Float32Array();
  /** The signs of other rows than bits, once a search has needed them. */
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
    const isAllowed = (row: number) => !allowed || ((allowed[row >> 5]! >>> (row & 31)) & 1) === 1;
    const own = allowed ? Uint32Array.from({ length: rows.count }, (_, row) => row).filter(isAllowed) : null;
    return Array.from(eachQuery(queries, dimensionsOf(rows)), (query) => {
      const among = candidates > 0 && !own ? nearestBits(query, this.#allSigns(), candidates) : own;
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

/** `array`, of which `used` entries are in use, with `more` after them; if there is no room, a larger copy. */
export function appended<A extends Rows['data'] | Float64Array>(array: A, used: number, more: A): A {
  const end = used + more.length;
  let out = array;
  if (end > array.length) {
    out = new (array.constructor as new (length: number) => A)(Math.max(end, Math.ceil(1.25 * used)));
    out.set(array.subarray(0, used));
  }
  out.set(more, used);
  return out;
}

/** Moves the rows `kept`, ascending, to the front. */
export function keepRows<A extends Rows['data'] | Float64Array>(array: A, width: number, kept: Uint32Array): A {
  kept.forEach((row, at) => {
    if (row > at) array.copyWithin(at * width, row * width, (row + 1) * width);
  });
  return array;
}
