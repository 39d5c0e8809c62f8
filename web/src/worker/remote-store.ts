/** The vectors of an index whose model runs in a worker, in the worker's memory (worker-store.ts). Imported on demand. */
import { HeedError } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { heldByCalls } from '../base/pending.js';
import { registry, type SignalLike } from '../base/platform.js';
import type { Hit } from '../base/scores.js';
import type { Rows } from '../models/quantized.js';
import type { Projection } from '../search/projection.js';
import { blocksOf, copiedRows, type StoredVectors, type StoreOptions } from '../search/stored-vectors.js';
import type { Answer, FileTensors, Store, StoreSearch } from '../search/vector-store.js';
import type { Method } from './protocol.js';
import type { Control } from './sent-options.js';
import type { PackedHits, StoreForm, WorkerStore } from './worker-store.js';

/** The part of WorkerModel that is used here. */
interface StoreModel {
  readonly disposed: boolean;
  /** Whether the worker has died. */
  readonly failed: boolean;
  call<T>(method: Method, args: unknown[], options?: Control): Promise<T>;
}

/** A store in the worker of a model, by its number. */
interface Place {
  readonly model: StoreModel;
  readonly id: number;
}

function callStore<T>(
  { model, id }: Place,
  method: keyof WorkerStore | 'open',
  args: unknown[],
  signal?: SignalLike | undefined,
): Promise<T> {
  return model.call('store', [id, method, ...args], signal && { signal });
}

/** Frees a store. Its worker may have ended, or may end before. */
const release = (place: Place) => void callStore(place, 'dispose', []).catch(() => {});

/** Frees the stores of indexes that were garbage-collected without dispose(). */
const forgotten = registry<Place>(release);

let nextId = 0;

/** Opens a store in the worker of a model. */
export async function openStore(model: StoreModel, options: StoreOptions): Promise<Store> {
  const place = { model, id: nextId++ };
  await callStore(place, 'open', [options]);
  return new RemoteStore(place, options);
}

class RemoteStore implements Store {
  readonly isRemote = true;
  readonly options: StoreOptions;
  readonly #place: Place;
  #form: StoreForm = { count: 0, width: 0, bits: false };
  #isDisposed = false;
  /** Settles after all turns so far. */
  #lastTurn: Promise<unknown> = Promise.resolve();

  constructor(place: Place, options: StoreOptions) {
    this.#place = place;
    this.options = options;
    forgotten?.register(this, place, this);
  }

  get count(): number {
    return this.#known.count;
  }

  get width(): number {
    return this.#known.width;
  }

  get bits(): boolean {
    return this.#known.bits;
  }

  get #known(): StoreForm {
    const ended = this.#ended();
    if (ended) throw ended;
    return this.#form;
  }

  /** The error of all calls after the end of the store or of its worker; null before. */
  #ended(cause?: unknown): HeedError | null {
    const { model } = this.#place;
    if (this.#isDisposed) return new HeedError('DISPOSED', 'TextIndex: used after dispose()');
    if (model.disposed)
      return new HeedError('DISPOSED', 'TextIndex: used after dispose() of the model whose worker had its vectors');
    const message = 'TextIndex: the worker that had its vectors has ended. Load the model and the index again';
    return model.failed ? new HeedError('WORKER_FAILED', message, { cause }) : null;
  }

  inTurn<T>(body: () => Answer<T>): Promise<T> {
    const result = this.#lastTurn.then(body);
    this.#lastTurn = result.catch(() => {});
    return result;
  }

  async prepare(rows: Rows, signal: SignalLike | undefined): Promise<() => Promise<void>> {
    const pause = makeYield(signal);
    try {
      for (const { block, first } of blocksOf(rows)) {
        await pause();
        // A copy, because the whole buffer of a view would be sent.
        await this.#call('prepare', [copiedRows(block), first], signal);
      }
    } catch (error) {
      this.#call('discard', []).catch(() => {});
      throw error;
    }
    return () => this.#change('append', []);
  }

  project({ components, width }: Projection): Promise<void> {
    return this.#change('project', [components, width]);
  }

  keep(kept: Uint32Array): Promise<void> {
    return this.#change('keep', [kept]);
  }

  async vectors(rows: Uint32Array | null): Promise<StoredVectors> {
    const vectors = await this.#call<Omit<StoredVectors, 'options'>>('vectors', [rows]);
    return { ...vectors, options: this.options };
  }

  write(
    rows: Uint32Array | null,
    before: FileTensors,
    behind: FileTensors,
    metadata: Record<string, string>,
  ): Promise<Uint8Array<ArrayBuffer>> {
    return this.#call('write', [rows, before, behind, metadata]);
  }

  async search(queries: Float32Array, search: StoreSearch, signal?: SignalLike): Promise<Hit[][]> {
    const { counts, rows, scores } = await this.#call<PackedHits>('search', [queries, search], signal);
    let next = 0;
    const hit = (): Hit => ({ index: rows[next]!, score: scores[next++]! });
    return Array.from(counts, (count) => Array.from({ length: count }, hit));
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    forgotten?.unregister(this);
    release(this.#place);
  }

  async #change(method: 'append' | 'project' | 'keep', args: unknown[]): Promise<void> {
    this.#form = await this.#call(method, args);
  }

  async #call<T>(method: keyof WorkerStore, args: unknown[], signal?: SignalLike): Promise<T> {
    void this.#known;
    try {
      return await callStore<T>(this.#place, method, args, signal);
    } catch (error) {
      throw this.#ended(error) ?? error;
    }
  }
}

heldByCalls(RemoteStore.prototype);
