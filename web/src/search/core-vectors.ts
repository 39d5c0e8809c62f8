/**
 * The vectors of a TextIndex in WebAssembly memory. They are searched with SIMD by all threads of the runtime, and
 * copied to JavaScript only when they are read, for example to be saved.
 */
import { HeedError } from '../base/error.js';
import { Owned, type Runtime } from '../base/owned.js';
import type { Hit } from '../base/scores.js';
import type { RawVectorIndex } from '../base/wasm/core.js';
import { normsOf, type Rows } from '../models/quantized.js';
import {
  appended,
  dimensionsOf,
  keepRows,
  powerFor,
  type StoreOptions,
  type StoreSearch,
  stored,
  type VectorStore,
} from './vector-store.js';

/** The number of rows that are copied into WebAssembly memory at a time, which limits the memory for copies. */
const BLOCK = 8192;

/** The maximum number of hits for which a search allocates memory, unless a single query has more. */
const MAX_HITS = 2 ** 20;

class Resident extends Owned<RawVectorIndex> {}

export class CoreStore implements VectorStore {
  readonly #runtime: Runtime;
  /** null before the first rows are added, which determine the storage type. */
  #resident: Resident | null = null;
  #isDisposed = false;
  #form = { width: 0, bits: false, isFloat: false };
  /** The factors of fp32 or int8 rows. The array may have spare capacity. */
  #factors: Float32Array = new Float32Array();
  readonly options: StoreOptions;

  constructor(runtime: Runtime, options: StoreOptions) {
    this.#runtime = runtime;
    this.options = options;
  }

  get count(): number {
    return this.#raw?.count() ?? 0;
  }

  get width(): number {
    return this.count === 0 ? 0 : this.#form.width;
  }

  get bits(): boolean {
    return this.#form.bits;
  }

  get #raw(): RawVectorIndex | undefined {
    if (this.#isDisposed) throw new HeedError('DISPOSED', 'TextIndex: used after dispose()');
    return this.#resident?.raw;
  }

  append(given: Rows): void {
    const before = this.count;
    const more = stored(given, this.options);
    if (before === 0) {
      const isFloat = more.data.BYTES_PER_ELEMENT === 4;
      const form = isFloat ? 'float32' : more.bits ? 'bits' : 'int8';
      const made = new this.#runtime.core.VectorIndex(form, dimensionsOf(more));
      this.#resident?.dispose();
      this.#resident = new Resident('TextIndex', this.#runtime, made);
      this.#form = { width: more.width, bits: more.bits, isFloat };
    }
    const { width, bits } = this.#form;
    const all = appended(this.#factors, bits ? 0 : before, more.factors);
    const factors = bits ? new Float32Array(more.count).fill(1 / Math.sqrt(8 * width)) : more.factors;
    const raw = this.#raw!;
    try {
      for (let row = 0; row < more.count; row += BLOCK) {
        const end = Math.min(row + BLOCK, more.count);
        raw.append(bytesOf(more.data.subarray(row * width, end * width)), factors.subarray(row, end));
      }
    } catch (error) {
      raw.keep(Uint32Array.from({ length: before }, (_, row) => row));
      throw error;
    }
    this.#factors = all;
  }

  keep(kept: Uint32Array): void {
    this.#raw?.keep(kept); // first, because it may fail
    if (!this.bits) keepRows(this.#factors, 1, kept);
  }

  rows(): Rows['data'] {
    const bytes = this.#raw?.rows(0, this.count) ?? new Uint8Array();
    if (this.#form.isFloat) return new Float32Array(bytes.buffer);
    return this.bits ? bytes : new Int8Array(bytes.buffer);
  }

  factors(): Float32Array {
    return this.#factors.subarray(0, this.bits ? 0 : this.count);
  }

  search(queries: Float32Array, { topK, threshold, candidates, allowed }: StoreSearch): Hit[][] {
    const raw = this.#raw!;
    const width = dimensionsOf(this.#form);
    const limited = { topK: Math.min(topK, this.count), candidates: Math.min(candidates, this.count), allowed };
    // The module's scores are dot products with the query as given, so they are divided by its norm below.
    const isDot = this.options.similarity === 'dot';
    const lengths = normsOf(queries, width);
    const powers = lengths.map(powerFor);
    const norms = powers.map((power, n) => (isDot ? power : lengths[n]! * power));
    const isScaled = powers.some((power) => power !== 1);
    const scaled = isScaled ? queries.map((v, i) => v * powers[Math.floor(i / width)]!) : queries;
    // Slightly below the threshold, to allow for rounding. The hits are compared with the threshold below.
    const thresholds = Float32Array.from(norms, (norm) => (threshold - 1e-6 * Math.abs(threshold)) * norm);
    // The module allocates memory for topK hits per query.
    const step = Math.max(1, Math.floor(MAX_HITS / limited.topK));
    const found: Hit[][] = [];
    for (let first = 0; first < norms.length; first += step) {
      const part = raw.search(scaled.subarray(first * width, (first + step) * width), {
        ...limited,
        thresholds: thresholds.subarray(first, first + step),
      });
      for (const hits of hitsOf(part)) {
        const norm = norms[found.length]!;
        found.push(
          hits
            .map(({ index, score }) => ({ index, score: Math.fround(score / norm) }))
            .filter(({ score }) => score >= threshold),
        );
      }
    }
    return found;
  }

  dispose(): void {
    this.#isDisposed = true;
    this.#resident?.dispose();
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) => new Uint8Array(buffer, byteOffset, byteLength);

/** Converts the module's hits to those of each query. */
function hitsOf({ counts, hits }: ReturnType<RawVectorIndex['search']>): Hit[][] {
  const scores = new Float32Array(hits.buffer);
  const stride = hits.length / (counts.length || 1);
  return Array.from(counts, (count, n) =>
    Array.from({ length: count }, (_, i) => ({
      index: hits[n * stride + 2 * i]!,
      score: scores[n * stride + 2 * i + 1]!,
    })),
  );
}
