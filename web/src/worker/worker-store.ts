/** The vectors of indexes in the memory of a model's worker. Imported when the first index asks for it. */
import { guarded } from '../base/error.js';
import type { Runtime } from '../base/owned.js';
import type { Rows } from '../models/quantized.js';
import { Projection } from '../search/projection.js';
import { inForm, type StoreOptions } from '../search/stored-vectors.js';
import { type FileTensors, type StoreSearch, VectorStore } from '../search/vector-store.js';

/** What the main thread knows of a store. */
export interface StoreForm {
  count: number;
  width: number;
  bits: boolean;
}

/** The hits of several queries, one query after the other. */
export interface PackedHits {
  /** The number of hits of each query. */
  counts: Uint32Array;
  rows: Uint32Array;
  scores: Float32Array;
}

/** The methods that remote-store.ts calls. */
export class WorkerStore {
  readonly #store: VectorStore;
  /** Rows that have been converted and not appended yet. */
  #prepared: Rows[] = [];

  constructor(runtime: Runtime, options: StoreOptions) {
    this.#store = new VectorStore(runtime, options);
  }

  #form(): StoreForm {
    const { count, width, bits } = this.#store;
    return { count, width, bits };
  }

  /** Converts a block of rows. `first`: the number of its first row; 0 begins a new list. */
  prepare(block: Rows, first: number): void {
    if (first === 0) this.#prepared = [];
    this.#prepared.push(inForm(this.#store, block, first));
  }

  /** Appends the rows that have been converted. If it throws, the store is unchanged. */
  append(): StoreForm {
    const store = this.#store;
    const before = store.count;
    try {
      for (const rows of this.#prepared) guarded('vectors', () => store.append(rows));
    } catch (error) {
      store.keep(Uint32Array.from({ length: before }, (_, row) => row));
      throw error;
    } finally {
      this.#prepared = [];
    }
    return this.#form();
  }

  /** Forgets the rows that have been converted. */
  discard(): void {
    this.#prepared = [];
  }

  project(components: Float32Array, width: number): StoreForm {
    this.#store.project(new Projection(components, width));
    return this.#form();
  }

  keep(kept: Uint32Array): StoreForm {
    this.#store.keep(kept);
    return this.#form();
  }

  /** Without the options of the store, which the main thread has. */
  vectors(rows: Uint32Array | null) {
    const { options: _, ...vectors } = this.#store.vectors(rows);
    return vectors;
  }

  write(
    rows: Uint32Array | null,
    before: FileTensors,
    behind: FileTensors,
    metadata: Record<string, string>,
  ): Uint8Array {
    return this.#store.write(rows, before, behind, metadata);
  }

  search(queries: Float32Array, search: StoreSearch): PackedHits {
    const found = this.#store.search(queries, search);
    const hits = found.flat();
    return {
      counts: Uint32Array.from(found, ({ length }) => length),
      rows: Uint32Array.from(hits, ({ index }) => index),
      scores: Float32Array.from(hits, ({ score }) => score),
    };
  }

  dispose(): void {
    this.#store.dispose();
  }
}

/** The stores that the main thread has opened, by its numbers. */
const stores = new Map<number, WorkerStore>();

/** Answers a call of remote-store.ts. */
export function callStore(runtime: Runtime, id: number, method: string, ...args: never[]): unknown {
  if (method === 'open') return void stores.set(id, new WorkerStore(runtime, args[0] as unknown as StoreOptions));
  const store = stores.get(id)!;
  if (method === 'dispose') stores.delete(id);
  return (store as unknown as Record<string, (...args: never[]) => unknown>)[method]!(...args);
}
