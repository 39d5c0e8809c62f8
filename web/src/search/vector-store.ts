/**
 * The vectors of a TextIndex in WebAssembly memory. They are searched with SIMD by all threads of the runtime, and
 * copied to JavaScript only when they are read, for example to be saved.
 */
import { guarded, HeedError } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { Owned, type Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import type { Hit } from '../base/scores.js';
import type { RawVectorIndex } from '../base/wasm/core.js';
import { writeSafetensors } from '../io/safetensors.js';
import { normsOf, type Rows } from '../models/quantized.js';
import type { Projection } from './projection.js';
import {
  dimensionsOf,
  type FactoredRows,
  inBlocks,
  inForm,
  int8Rows,
  powerFor,
  type StoredVectors,
  type StoreOptions,
  stored,
  vectorTensors,
} from './stored-vectors.js';

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

/** A result, or a promise of it if the vectors are in a worker. */
export type Answer<T> = T | Promise<T>;

/** Continues with an answer, at once unless it is a promise. */
export const after = <T, R>(answer: Answer<T>, next: (value: T) => Answer<R>): Answer<R> =>
  answer instanceof Promise ? answer.then(next) : next(answer);

/** Tensors of a safetensors file. */
export type FileTensors = Parameters<typeof writeSafetensors>[0];

/**
 * A growable list of vectors, all of one width and type: in the memory of this thread (`VectorStore`) or of a model's
 * worker (worker/remote-store.ts).
 */
export interface Store {
  readonly options: StoreOptions;
  /** Whether answers are promises. */
  readonly isRemote: boolean;
  readonly count: number;
  /** The number of stored entries per row: D, or D / 8 for bits. 0 without rows. */
  readonly width: number;
  readonly bits: boolean;
  /**
   * Runs `body`, whose calls of the store belong together: rows have the same numbers in all of them. With a remote
   * store, it waits for the turns before.
   */
  inTurn<T>(body: () => Answer<T>): Answer<T>;
  /** Converts rows to the store's form, and returns a function that appends them. If that throws, the store is unchanged. */
  prepare(rows: Rows, signal: SignalLike | undefined): Promise<() => Answer<void>>;
  /** Makes the rows, which are int8, those of a projection. Rows that are appended later are projected. */
  project(projection: Projection): Answer<void>;
  /** Removes all rows except `kept`, in ascending order. */
  keep(kept: Uint32Array): Answer<void>;
  /** A copy of the vectors of `rows` as they are stored; null: of all. */
  vectors(rows: Uint32Array | null): Answer<StoredVectors>;
  /** Writes a safetensors file with the vectors of `rows` (null: of all), behind `before` and in front of `behind`. */
  write(
    rows: Uint32Array | null,
    before: FileTensors,
    behind: FileTensors,
    metadata: Record<string, string>,
  ): Answer<Uint8Array<ArrayBuffer>>;
  /** Finds the best rows for each query [N,D]. The signal stops waiting for a worker. */
  search(queries: Float32Array, search: StoreSearch, signal?: SignalLike): Answer<Hit[][]>;
  dispose(): void;
}

/** The number of rows that are copied into WebAssembly memory at a time, which limits the memory for copies. */
const BLOCK = 8192;

/** The maximum number of hits for which a search allocates memory, unless a single query has more. */
const MAX_HITS = 2 ** 20;

class Resident extends Owned<RawVectorIndex> {}

/** The vectors of an index in WebAssembly memory of this thread. */
export class VectorStore implements Store {
  readonly isRemote = false;
  readonly #runtime: Runtime;
  /** null before the first rows are added, which determine the storage type. */
  #resident: Resident | null = null;
  #isDisposed = false;
  /** The form of the rows in memory, which are projected if there is a projection. */
  #form = { width: 0, bits: false, isFloat: false };
  /** The factors of fp32 or int8 rows. The array may have spare capacity. */
  #factors: Float32Array = new Float32Array();
  #projection: Projection | null = null;
  /** With a projection, the rows B^T y in int8, once they have been needed. */
  #whole: FactoredRows | null = null;
  readonly options: StoreOptions;

  constructor(runtime: Runtime, options: StoreOptions) {
    this.#runtime = runtime;
    this.options = options;
  }

  get count(): number {
    return this.#raw?.count() ?? 0;
  }

  get width(): number {
    return this.count === 0 ? 0 : (this.#projection?.width ?? this.#form.width);
  }

  get bits(): boolean {
    return this.#form.bits;
  }

  get #raw(): RawVectorIndex | undefined {
    if (this.#isDisposed) throw new HeedError('DISPOSED', 'TextIndex: used after dispose()');
    return this.#resident?.raw;
  }

  inTurn<T>(body: () => Answer<T>): Answer<T> {
    return body();
  }

  async prepare(rows: Rows, signal: SignalLike | undefined): Promise<() => void> {
    const more = await inBlocks(rows, (block, first) => inForm(this, block, first), makeYield(signal));
    return () => guarded('vectors', () => this.append(more));
  }

  project(projection: Projection): void {
    this.#projection = projection;
  }

  /** Appends rows of the store's type. If it throws, the store is unchanged. */
  append(given: Rows): void {
    const before = this.count;
    const more = stored(this.#projected(given), this.options);
    if (before === 0) {
      const isFloat = more.data.BYTES_PER_ELEMENT === 4;
      const form = isFloat ? 'float32' : more.bits ? 'bits' : 'int8';
      const made = new this.#runtime.core.VectorIndex(form, dimensionsOf(more));
      this.#resident?.dispose();
      this.#resident = new Resident('TextIndex', this.#runtime, made);
      this.#form = { width: more.width, bits: more.bits, isFloat };
    }
    const { width, bits } = this.#form;
    const all = bits ? this.#factors : appended(this.#factors, before, more.factors);
    const factors = bits ? new Float32Array(more.count).fill(1 / Math.sqrt(8 * width)) : more.factors;
    const raw = this.#raw!;
    try {
      for (let row = 0; row < more.count; row += BLOCK) {
        const end = Math.min(row + BLOCK, more.count);
        const { buffer, byteOffset, byteLength } = more.data.subarray(row * width, end * width);
        raw.append(new Uint8Array(buffer, byteOffset, byteLength), factors.subarray(row, end));
      }
    } catch (error) {
      raw.keep(Uint32Array.from({ length: before }, (_, row) => row));
      throw error;
    }
    this.#factors = all;
    this.#whole = null;
  }

  #projected(given: Rows): Rows {
    if (!this.#projection) return given;
    const values = this.#projection.project(Float32Array.from(given.data));
    return int8Rows(values, given.count, values.length / (given.count || 1));
  }

  keep(kept: Uint32Array): void {
    this.#raw?.keep(kept); // first, because it may fail
    if (!this.bits)
      kept.forEach((row, at) => {
        this.#factors[at] = this.#factors[row]!;
      });
    this.#whole = null;
    if (kept.length === 0) this.#projection = null;
  }

  vectors(rows: Uint32Array | null): StoredVectors {
    const { bits, options, width } = this;
    if (this.#projection) this.#whole ??= stored(this.#projection.restore(this.#rows().data, this.count), options);
    const { data, factors } = this.#whole ?? this.#rows();
    if (!rows) {
      const own = this.#whole ? data.slice() : data;
      return { options, data: own, count: this.count, width, bits, factors: factors.slice() };
    }
    const [some, own] = [data.slice(0, rows.length * width), new Float32Array(bits ? 0 : rows.length)];
    rows.forEach((row, n) => {
      some.set(data.subarray(row * width, (row + 1) * width), n * width);
      if (!bits) own[n] = factors[row]!;
    });
    return { options, data: some, count: rows.length, width, bits, factors: own };
  }

  write(rows: Uint32Array | null, before: FileTensors, behind: FileTensors, metadata: Record<string, string>) {
    return guarded('save', () =>
      writeSafetensors([...before, ...vectorTensors(this.vectors(rows)), ...behind], metadata),
    );
  }

  /** A copy of the rows in memory. */
  #rows(): Pick<FactoredRows, 'data' | 'factors'> {
    const bytes = this.#raw?.rows(0, this.count) ?? new Uint8Array();
    const { bits, isFloat } = this.#form;
    const data = isFloat ? new Float32Array(bytes.buffer) : bits ? bytes : new Int8Array(bytes.buffer);
    return { data, factors: this.#factors.subarray(0, bits ? 0 : this.count) };
  }

  search(queries: Float32Array, { topK, threshold, candidates, allowed }: StoreSearch): Hit[][] {
    const raw = this.#raw!;
    const limited = { topK: Math.min(topK, this.count), candidates: Math.min(candidates, this.count), allowed };
    const lengths = normsOf(queries, dimensionsOf(this));
    const given = this.#projection?.project(queries) ?? queries;
    const width = dimensionsOf(this.#form);
    // The module's scores are dot products with the query as it gets it, so they are divided by the query's norm below.
    const isDot = this.options.similarity === 'dot';
    const powers = (this.#projection ? normsOf(given, width) : lengths).map(powerFor);
    const norms = powers.map((power, n) => (isDot ? power : lengths[n]! * power));
    const isScaled = powers.some((power) => power !== 1);
    const scaled = isScaled ? given.map((v, i) => v * powers[Math.floor(i / width)]!) : given;
    // Slightly below the threshold, to allow for rounding. The hits are compared with the threshold below.
    const thresholds = Float32Array.from(norms, (norm) => (threshold - 1e-6 * Math.abs(threshold)) * norm);
    // The module allocates memory for topK hits per query.
    const step = Math.max(1, Math.floor(MAX_HITS / limited.topK));
    const found: Hit[][] = [];
    for (let first = 0; first < norms.length; first += step) {
      const { counts, hits } = raw.search(scaled.subarray(first * width, (first + step) * width), {
        ...limited,
        thresholds: thresholds.subarray(first, first + step),
      });
      const scores = new Float32Array(hits.buffer);
      const stride = hits.length / (counts.length || 1);
      for (const [n, count] of counts.entries()) {
        const hit = (i: number): Hit => {
          const at = n * stride + 2 * i;
          return { index: hits[at]!, score: Math.fround(scores[at + 1]! / norms[first + n]!) };
        };
        found.push(Array.from({ length: count }, (_, i) => hit(i)).filter(({ score }) => score >= threshold));
      }
    }
    return found;
  }

  dispose(): void {
    this.#isDisposed = true;
    this.#resident?.dispose();
  }
}

/** Appends `more` to the `used` entries of `array`, in place if its capacity suffices, else in a larger copy. */
function appended(array: Float32Array, used: number, more: Float32Array): Float32Array {
  const end = used + more.length;
  let out = array;
  if (end > array.length) {
    out = new Float32Array(Math.max(end, Math.ceil(1.25 * used)));
    out.set(array.subarray(0, used));
  }
  out.set(more, used);
  return out;
}
