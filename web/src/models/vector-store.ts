/** Where a TextIndex keeps its vectors: in JavaScript's arrays, as here, or in the core (core-vectors.ts). */
import type { writeSafetensors } from '../io/safetensors.js';
import { inverse, lengthsOf, type Rows, signsOf } from './quantized.js';
import { bestRows, type Hit, nearestBits } from './tasks/similarity.js';

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

/** N rows of a width, as int8 or as bits. The first ones that are appended decide which. */
export interface VectorStore {
  readonly count: number;
  /** Entries of a row as it is stored: D for int8, D / 8 for bits. 0 before the first rows. */
  readonly width: number;
  readonly bits: boolean;
  /** Appends rows of the store's form. After an error, there are none of them. */
  append(rows: Rows): void;
  /** Removes all rows but these, which ascend. */
  keep(kept: Uint32Array): void;
  /** The rows as they are stored, which must not be changed. */
  rows(): Int8Array | Uint8Array;
  /** The length of each row of int8; none for bits. */
  norms(): Float32Array;
  /** For each query [N,D], the best rows by cosine. */
  search(queries: Float32Array, options: StoreSearch): Hit[][];
  dispose(): void;
}

/** What an index is made of. */
export interface IndexState {
  readonly texts: string[];
  readonly store: VectorStore;
  /** Null while they are the numbers of the rows. May have room for more. */
  ids: Float64Array | null;
  /** Larger than any id so far. */
  nextId: number;
  model: string | null;
}

/** D */
export const dimensionsOf = ({ width, bits }: { width: number; bits: boolean }): number => (bits ? 8 * width : width);

/** The number of queries of `width` entries, and each of them. */
export function* eachQuery(queries: Float32Array, width: number): Generator<Float32Array> {
  for (let at = 0; at < queries.length; at += width) yield queries.subarray(at, at + width);
}

/** The tensors of a file with the vectors. */
export function vectorTensors(store: VectorStore): Parameters<typeof writeSafetensors>[0] {
  const { count, width, bits } = store;
  const vectors = { name: 'vectors', dtype: bits ? 'U8' : 'I8', shape: [count, width], data: store.rows() };
  if (bits) return [vectors];
  return [{ name: 'vectors_scale', dtype: 'F32', shape: [count, 1], data: store.norms().map(inverse) }, vectors];
}

export class ArrayStore implements VectorStore {
  /** The arrays may have room for further rows. */
  #rows: Rows = { data: new Int8Array(), count: 0, width: 0, bits: false };
  #norms: Float32Array = new Float32Array();
  /** The signs of rows of int8, once a search has needed them. */
  #signs: Uint8Array | null = null;

  get count(): number {
    return this.#rows.count;
  }

  get width(): number {
    return this.#rows.count === 0 ? 0 : this.#rows.width;
  }

  get bits(): boolean {
    return this.#rows.bits;
  }

  append(more: Rows): void {
    const { data, count, width } = this.#rows;
    const isFirst = count === 0;
    const signBytes = Math.ceil(more.width / 8);
    const all = isFirst ? more.data.slice(0, more.count * more.width) : appended(data, count * width, more.data);
    const norms = appended(isFirst ? new Float32Array() : this.#norms, count, lengthsOf(more));
    const signs = this.#signs && !isFirst ? appended(this.#signs, count * signBytes, signsOf(more)) : null;
    this.#rows = { ...more, data: all, count: count + more.count };
    this.#norms = norms;
    this.#signs = signs;
  }

  keep(kept: Uint32Array): void {
    const { data, width, bits } = this.#rows;
    keepRows(data, width, kept);
    if (!bits) keepRows(this.#norms, 1, kept);
    if (this.#signs) keepRows(this.#signs, Math.ceil(width / 8), kept);
    this.#rows.count = kept.length;
  }

  rows(): Int8Array | Uint8Array {
    const { data, count, width } = this.#rows;
    return data.subarray(0, count * width) as Int8Array;
  }

  norms(): Float32Array {
    return this.#norms.subarray(0, this.bits ? 0 : this.count);
  }

  search(queries: Float32Array, { topK, threshold, candidates, allowed }: StoreSearch): Hit[][] {
    const rows = this.#rows;
    const isAllowed = (row: number) => !allowed || ((allowed[row >> 5]! >>> (row & 31)) & 1) === 1;
    const own = allowed ? Uint32Array.from({ length: rows.count }, (_, row) => row).filter(isAllowed) : null;
    return Array.from(eachQuery(queries, dimensionsOf(rows)), (query) => {
      const among = candidates > 0 && !own ? nearestBits(query, this.#allSigns(), candidates) : own;
      return bestRows(query, rows, rows.bits ? null : this.#norms, topK, among).filter(
        ({ score }) => score >= threshold,
      );
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
