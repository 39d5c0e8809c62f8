/** A pretrained encoder in a worker: each method sends a call to the worker. */
import { HeedError, importing, invalid } from '../base/error.js';
import type { PageRuntime } from '../base/owned.js';
import { heldByCalls } from '../base/pending.js';
import { registry, type WorkerLike } from '../base/platform.js';
import { moduleOf, threadsOf } from '../base/wasm/module.js';
import { packaged } from '../base/wasm/packaged.js';
import { type ModelSource, sourceForWorker } from '../io/source.js';
import type { LoadModelOptions } from '../models/loaded-model.js';
import type { ModelConfig } from '../models/model.js';
import type { StoreOptions } from '../search/stored-vectors.js';
import type { Store } from '../search/vector-store.js';
import { Connection } from './connection.js';
import type { Method } from './protocol.js';
import { type RemoteCall, RemoteModel } from './remote.js';
import type { Control } from './sent-options.js';
import type { FileServer } from './shared-files.js';

/** Terminates the workers of models that were garbage-collected without dispose(). */
const forgotten = registry<Connection>((connection) => connection.delete());

/**
 * Where worker.js finds its parts; empty if this environment does not say where scripts are. Bundlers recognize exactly
 * this expression, and copy the file.
 */
function partsUrl(): string {
  try {
    return packaged('worker-parts.js', new URL('./worker-parts.js', import.meta.url)).href;
  } catch {
    return '';
  }
}

/** Workers passed by callers, each of which can run only one model. */
const taken = new WeakSet<WorkerLike>();

/**
 * Loads a model in a new worker, or in `worker`, which must run heed's worker.js. If `given` is null, the worker loads
 * the files that `files` serves; otherwise it reads the source with its own `fetch`.
 */
export async function loadInWorker(
  runtime: PageRuntime,
  given: ModelSource | null,
  { signal, onProgress, fetch: _, ...options }: LoadModelOptions,
  worker?: WorkerLike,
  files: FileServer | null = null,
): Promise<WorkerModel> {
  signal?.throwIfAborted();
  const wasm = moduleOf(runtime.core);
  // A single worker starts threads of its own; the workers of a pool do not, because they run in parallel already.
  const threads = files ? 1 : threadsOf(runtime.core).count;
  const { source, hub: from } =
    given === null ? { source: null, hub: runtime.hub } : sourceForWorker(given, runtime.hub);
  if (worker) {
    if (taken.has(worker))
      throw invalid('fromPretrained.worker', 'a Worker that runs no other model', 'a Worker that was given before');
    taken.add(worker);
  }
  const connection = new Connection(worker ?? runtime.startWorker(), runtime.owned, files);
  try {
    void connection.greet('load');
    const { fetch: _, ...hub } = from; // a function cannot be posted
    const load = { ...options, hub };
    const args = [source, wasm, threads, partsUrl()];
    const config = await connection.call<ModelConfig>('load', args, load, signal, onProgress);
    return new WorkerModel(connection, config);
  } catch (error) {
    connection.end(new HeedError('WORKER_FAILED', 'worker: its model could not be loaded'));
    throw error;
  }
}

export class WorkerModel extends RemoteModel {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'PretrainedModel';

  readonly config: ModelConfig;
  readonly workers = { count: 1, reason: 'the model runs in one worker; `workers` starts a pool' };
  readonly #connection: Connection;

  constructor(connection: Connection, config: ModelConfig) {
    super();
    this.config = config;
    this.#connection = connection;
    forgotten?.register(this, connection, this);
  }

  get disposed(): boolean {
    return this.#connection.closed?.code === 'DISPOSED';
  }

  /** Whether the worker has died. */
  get failed(): boolean {
    return this.#connection.closed !== null && !this.disposed;
  }

  dispose(): void {
    forgotten?.unregister(this);
    this.#connection.delete();
  }

  call<T>(method: Method, args: unknown[], options?: Control): Promise<T> {
    const { signal, onProgress, ...rest } = options ?? {};
    return this.#connection.call(method, args, options ? rest : null, signal, onProgress);
  }

  /** @internal Opens a store for the vectors of an index in the worker. */
  async openStore(options: StoreOptions): Promise<Store> {
    return (await importing('remote-store', () => import('./remote-store.js'))).openStore(this, options);
  }

  protected run<T>({ method, input, args = (each) => [each], options }: RemoteCall<T>): Promise<T> {
    return this.call(method, args(input), options);
  }
}

heldByCalls(WorkerModel.prototype);
