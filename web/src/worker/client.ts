/** A pretrained encoder in a worker: each method sends a call to the worker. */
import { HeedError, invalid } from '../error.js';
import { type ModelSource, sourceForWorker } from '../io/source.js';
import type { LoadModelOptions } from '../models/load.js';
import type { CallOptions, ModelConfig } from '../models/model.js';
import { moduleOf, threadsOf } from '../module.js';
import { callback, plainOptions, signal } from '../options.js';
import type { PageRuntime } from '../owned.js';
import { registry, type WorkerLike } from '../platform.js';
import { Tensor } from '../tensor.js';
import { Connection } from './connection.js';
import type { FileServer } from './files.js';
import type { Method } from './protocol.js';
import { RemoteModel } from './remote.js';

/** Ends the workers of models that were garbage-collected without dispose(). */
const forgotten = registry<Connection>((connection) => connection.delete());

/** Workers of callers that run a model: each can run one only. */
const taken = new WeakSet<WorkerLike>();

/**
 * Loads a model in a worker: a new one, or one that the caller made and that runs heed's worker.js. If `given` is null, the worker loads the files that `files` serves;
 * otherwise it reads the source itself, by its own `fetch`.
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
  // A worker has threads of its own. The workers of a pool have none: they are the threads.
  const threads = files ? 1 : threadsOf(runtime.core).count;
  const source = given && sourceForWorker(given, options.remoteHost, runtime.hub);
  if (worker) {
    if (taken.has(worker))
      throw invalid('fromPretrained.worker', 'a Worker that runs no other model', 'one that was given before');
    taken.add(worker);
  }
  const connection = new Connection(worker ?? runtime.startWorker(), runtime.owned, files);
  try {
    const { fetch: _, ...hub } = runtime.hub; // a function cannot be posted
    const load = { ...options, hub };
    const args = [source, wasm, threads];
    const config = await connection.call<ModelConfig>('load', args, load, signal, onProgress);
    return new WorkerModel(connection, config);
  } catch (error) {
    connection.end(new HeedError('WORKER_FAILED', 'worker: its model could not be loaded'));
    throw error;
  }
}

export class WorkerModel extends RemoteModel {
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

  /** Whether its worker has died. */
  get failed(): boolean {
    return this.#connection.closed !== null && !this.disposed;
  }

  dispose(): void {
    forgotten?.unregister(this);
    this.#connection.delete();
  }

  async call<T>(method: Method, args: unknown[], options?: object): Promise<T> {
    const { signal, onProgress, ...rest } = readCall(method, options as CallOptions | undefined);
    return revived(await this.#connection.call(method, args, options ? rest : null, signal, onProgress)) as T;
  }
}

/** Reads the options of a call. `signal` and `onProgress` stay on this side and are checked here, the others in the worker. */
export function readCall<T extends CallOptions>(owner: string, options: T | undefined) {
  const read = plainOptions(owner, options);
  requireNoMap(owner, read.edit);
  return {
    ...read,
    signal: signal(read.signal, `${owner}.signal`),
    onProgress: callback<NonNullable<CallOptions['onProgress']>>(read.onProgress, `${owner}.onProgress`),
  };
}

/** Functions cannot be sent to a worker. */
function requireNoMap(owner: string, edits: unknown): void {
  const at = Array.isArray(edits) ? edits.findIndex((edit) => edit?.map !== undefined) : -1;
  if (at >= 0)
    throw invalid(`${owner}.edit[${at}].map`, '`scale`, `add` or `set` in a worker', 'a function', 'UNSUPPORTED');
}

/** Makes Tensors of the tensors in a result, which lose their class when they are cloned. */
function revived(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('data' in value && 'shape' in value) {
    const { data, shape, ...more } = value as { data: Float32Array; shape: number[] };
    return Object.assign(new Tensor(data, shape), more);
  }
  // Lists have either only tensors or none; long lists without any need not be searched.
  if (Array.isArray(value)) return (value[0] as { data?: unknown } | undefined)?.data ? value.map(revived) : value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, revived(part)]));
}
