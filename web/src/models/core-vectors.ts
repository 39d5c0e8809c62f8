/** The vectors of a TextIndex in the core: searched with SIMD, by all threads of the runtime, and copied to JavaScript only to be saved. */
import type { RawVectorIndex } from '../core.js';
import { HeedError } from '../error.js';
import { Owned, type Runtime } from '../owned.js';
import { inverse, lengthsOf, normsOf, type Rows } from './quantized.js';
import type { Hit } from './tasks/similarity.js';
import { appended, dimensionsOf, eachQuery, keepRows, type StoreSearch, type VectorStore } from './vector-store.js';

/** Rows that cross the boundary at a time, so that their copies take little memory. */
const BLOCK = 8192;

/** Hits for which a call of the core takes memory, if there is more than one query. */
const MAX_HITS = 2 ** 20;

class Resident extends Owned<RawVectorIndex> {}

export class CoreStore implements VectorStore {
  readonly #runtime: Runtime;
  /** Null before the first rows, which decide the form. */
  #resident: Resident | null = null;
  #isDisposed = false;
  #form = { width: 0, bits: false };
  /** Of rows of int8. May have room for more. */
  #norms: Float32Array = new Float32Array();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
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

  append(more: Rows): void {
    const before = this.count;
    if (before === 0) {
      this.#resident?.dispose();
      const made = new this.#runtime.core.VectorIndex(more.bits ? 'bits' : 'int8', dimensionsOf(more));
      this.#resident = new Resident('TextIndex', this.#runtime, made);
      this.#form = more;
    }
    const { width, bits } = this.#form;
    const lengths = lengthsOf(more);
    const norms = appended(this.#norms, bits ? 0 : before, lengths);
    const factors = bits ? new Float32Array(more.count).fill(1 / Math.sqrt(8 * width)) : lengths.map(inverse);
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
    this.#norms = norms;
  }

  keep(kept: Uint32Array): void {
    if (!this.bits) keepRows(this.#norms, 1, kept);
    this.#raw?.keep(kept);
  }

  rows(): Int8Array | Uint8Array {
    const bytes = this.#raw?.rows(0, this.count) ?? new Uint8Array();
    return this.bits ? bytes : new Int8Array(bytes.buffer);
  }

  norms(): Float32Array {
    return this.#norms.subarray(0, this.bits ? 0 : this.count);
  }

  search(queries: Float32Array, { topK, threshold, candidates, allowed }: StoreSearch): Hit[][] {
    const raw = this.#raw!;
    const width = dimensionsOf(this.#form);
    const limited = { topK: Math.min(topK, this.count), candidates: Math.min(candidates, this.count), allowed };
    // The core's scores are products with the query as it is.
    const norms = Array.from(eachQuery(queries, width), (query) => normsOf(query, width)[0]!);
    const thresholds = Float32Array.from(norms, (norm) => threshold * norm);
    // The core takes room for topK hits of each query.
    const step = Math.max(1, Math.floor(MAX_HITS / limited.topK));
    const found = norms.flatMap((_, n) =>
      n % step > 0
        ? []
        : hitsOf(
            raw.search(queries.subarray(n * width, (n + step) * width), {
              ...limited,
              thresholds: thresholds.subarray(n, n + step),
            }),
          ),
    );
    return found.map((hits, n) => hits.map(({ index, score }) => ({ index, score: Math.fround(score / norms[n]!) })));
  }

  dispose(): void {
    this.#isDisposed = true;
    this.#resident?.dispose();
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) => new Uint8Array(buffer, byteOffset, byteLength);

/** The hits of each query. */
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
