/** A pretrained encoder in a worker of its own: the same interface as in this thread, every call a message. */
import { describe, HeedError, invalid } from '../error.js';
import { type ModelSource, portable } from '../io/source.js';
import type { LoadModelOptions } from '../models/load.js';
import type { CallOptions, ModelConfig } from '../models/model.js';
import { moduleOf } from '../module.js';
import { callback, plainOptions, signal } from '../options.js';
import type { RawObject, Runtime } from '../owned.js';
import { nodeModule, registry, type SignalLike, type WorkerLike } from '../platform.js';
import { Tensor } from '../tensor.js';
import type { FileServer } from './files.js';
import {
  type Answer,
  type Arguments,
  type FileRequest,
  type Loaded,
  type Method,
  type PackedError,
  packError,
  type Request,
  unpackError,
} from './protocol.js';
import { type Called, RemoteModel } from './remote.js';

interface Waiting {
  resolve(value: unknown): void;
  reject(error: unknown): void;
  onProgress: ((progress: never) => void) | undefined;
  release(): void;
}

type NodeWorker = import('node:worker_threads').Worker;

type Unsent<R> = R extends unknown ? Omit<R, 'id'> : never;

/** A worker and what is waited for from it. */
class Connection implements RawObject {
  readonly #worker: WorkerLike;
  readonly #owned: Set<RawObject>;
  readonly #files: FileServer | null;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 0;
  #reason: HeedError | null = null;

  /** `owned`: what the runtime deletes when it is disposed of; `files`: what the worker loads from where it does not read the source itself. */
  constructor(worker: WorkerLike, owned: Set<RawObject>, files: FileServer | null) {
    this.#worker = worker;
    this.#owned = owned;
    this.#files = files;
    owned.add(this);
    const failed = (what: string, cause?: unknown) =>
      this.end(
        new HeedError(
          'WORKER_FAILED',
          `worker: ${what}; expected one that runs heed's worker.js. Load the model again, or without \`worker\``,
          { cause },
        ),
      );
    const unreadable = () => failed('a message could not be read');
    // Listeners of the caller's stay as they are.
    if (typeof (worker as NodeWorker).on === 'function') {
      const node = worker as NodeWorker;
      node.on('message', (answer: Answer) => this.#receive(answer));
      node.on('messageerror', unreadable);
      node.on('error', (error) => failed(`it failed (${describe(error)})`, error));
      node.on('exit', (code) => failed(`it ended (exit code ${code})`));
      node.unref(); // a process whose work is done may end
      if (node.threadId === -1) failed('it has ended already');
    } else {
      const web = worker as Worker;
      web.addEventListener('message', ({ data }: MessageEvent<Answer>) => this.#receive(data));
      web.addEventListener('messageerror', unreadable);
      web.addEventListener('error', (event) => {
        event.preventDefault();
        failed(`it failed (${event.message || 'its script could not be loaded'})`, event.error ?? undefined);
      });
    }
  }

  /** Why it answers no more. */
  get ended(): HeedError | null {
    return this.#reason;
  }

  /** Sends a request; its promise settles with the answer, with the signal's reason, or with the worker's end. */
  ask<T>(
    request: Unsent<Extract<Request, { progress: boolean }>>,
    signal: SignalLike | undefined,
    onProgress: Waiting['onProgress'],
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#reason) throw this.#reason;
      signal?.throwIfAborted();
      const id = this.#nextId++;
      const onAbort = () => this.#abandon(id, signal!.reason);
      signal?.addEventListener('abort', onAbort);
      const release = () => signal?.removeEventListener('abort', onAbort);
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject, onProgress, release });
      if (this.#waiting.size === 1) (this.#worker as NodeWorker).ref?.();
      try {
        this.#post({ ...request, id } as Request);
      } catch (cause) {
        this.#settle(id)?.reject(
          new HeedError(
            'INVALID_ARGUMENT',
            `worker: got an argument that cannot be sent to a worker (${describe(cause)}); expected plain data`,
            { cause },
          ),
        );
      }
    });
  }

  /** Rejects what is pending with `reason`, and whatever is asked later. */
  end(reason: HeedError): void {
    const alive = this.#reason === null;
    if (alive || reason.code === 'DISPOSED') this.#reason = reason;
    if (!alive) return;
    this.#owned.delete(this);
    for (const id of [...this.#waiting.keys()]) this.#settle(id)?.reject(reason);
    void this.#worker.terminate();
  }

  /** Disposes of it, for the runtime. */
  delete(): void {
    this.end(disposed());
  }

  #post(request: Request): void {
    this.#worker.postMessage(request);
  }

  #receive(answer: Answer): void {
    // Other scripts in a worker of the caller's may send messages of their own.
    const waiting = this.#waiting.get(answer?.id);
    if (answer?.type === 'file') this.#serve(answer.id, answer.request);
    else if (!waiting) return;
    else if (answer.type === 'progress') {
      try {
        waiting.onProgress?.(answer.progress as never);
      } catch (error) {
        this.#abandon(answer.id, error);
      }
    } else if (answer.type === 'error') this.#settle(answer.id)?.reject(unpackError(answer.error));
    else if (answer.type === 'result') this.#settle(answer.id)?.resolve(answer.value);
  }

  #serve(id: number, request: FileRequest): void {
    const send = (result: { value: unknown } | { error: PackedError }) => {
      if (!this.#reason) this.#post({ type: 'file', id, ...result });
    };
    this.#files?.answer(request).then(
      (value) => send({ value }),
      (error) => send({ error: packError(error) }),
    );
  }

  /** Rejects one request and tells the worker that nobody waits for it. */
  #abandon(id: number, reason: unknown): void {
    this.#settle(id)?.reject(reason);
    this.#post({ type: 'abort', id });
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    waiting?.release();
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) (this.#worker as NodeWorker).unref?.();
    return waiting;
  }
}

export function disposed(): HeedError {
  return new HeedError('DISPOSED', 'PretrainedModel: got a call after dispose(); expected one before it');
}

/** Ends the workers of models that are forgotten without dispose(). */
const forgotten = registry<Connection>((connection) =>
  connection.end(new HeedError('DISPOSED', 'model: got collected as garbage')),
);

function startWorker(): WorkerLike {
  const threads = nodeModule<typeof import('node:worker_threads')>('worker_threads');
  try {
    if (threads) return new threads.Worker(new URL('./worker.js', import.meta.url)) as unknown as WorkerLike;
    if (typeof Worker !== 'function')
      throw new HeedError(
        'UNSUPPORTED',
        'worker: got a place that has no workers; expected a page or Node, or leave `worker` out',
      );
    // Spelled out: bundlers look for exactly this form, and make the script a bundle of its own.
    return new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }) as unknown as WorkerLike;
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    throw new HeedError(
      'WORKER_FAILED',
      `worker: cannot be started (${(cause as Error).message}); expected heed's worker.js beside heed's script`,
      { cause },
    );
  }
}

/** Workers that callers made and handed in: each runs one model. */
const taken = new WeakSet<WorkerLike>();

/** Loads a model in a worker: heed's own, or one that the caller made and that runs heed's worker.js. It reads the source itself, or (null) what `files` serves. */
export async function loadInWorker(
  runtime: Runtime,
  given: ModelSource | null,
  { signal, onProgress, ...options }: LoadModelOptions,
  worker?: WorkerLike,
  files: FileServer | null = null,
): Promise<WorkerModel> {
  signal?.throwIfAborted();
  const wasm = moduleOf(runtime.core);
  const source = given && portable(given, options.remoteHost);
  if (worker) {
    if (taken.has(worker))
      throw invalid('fromPretrained.worker', 'a Worker that was given before', 'one that runs no other model');
    taken.add(worker);
  }
  const connection = new Connection(worker ?? startWorker(), runtime.owned, files);
  try {
    const request = { type: 'load', source, options, wasm, progress: onProgress !== undefined } as const;
    const { config } = await connection.ask<Loaded>(request, signal, onProgress);
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
    return this.#connection.ended?.code === 'DISPOSED';
  }

  /** Whether its worker ended by itself. */
  get failed(): boolean {
    return this.#connection.ended !== null && !this.disposed;
  }

  dispose(): void {
    forgotten?.unregister(this);
    this.#connection.delete();
  }

  protected call<M extends Method>(method: M, args: Arguments<M>): Called<M> {
    return this.#ask(method, args) as Called<M>;
  }

  async #ask(method: Method, args: readonly unknown[]): Promise<unknown> {
    const place = OPTIONS_PLACE[method];
    const { signal, onProgress, ...rest } = readCall(method, (place === null ? {} : args[place]) as object | undefined);
    const request = {
      type: 'call',
      method,
      args: args.slice(0, place ?? 1),
      options: place === null ? null : rest,
      progress: onProgress !== undefined,
    } as const;
    return revived(await this.#connection.ask(request, signal, onProgress));
  }
}

/** Which argument of each method is its options. */
const OPTIONS_PLACE: Record<Method, number | null> = { encode: 1, embed: 1, tokenize: 1, predict: 2, decode: null };

/** Options of a call, of which those that stay on this side are checked here, and the others where the model is. */
export function readCall<T extends CallOptions>(owner: string, options: T | undefined) {
  const read = plainOptions(owner, options);
  return {
    ...read,
    signal: signal(read.signal, `${owner}.signal`),
    onProgress: callback<NonNullable<CallOptions['onProgress']>>(read.onProgress, `${owner}.onProgress`),
  };
}

/** A result as it was before it was cloned: its tensors have lost their class. */
function revived(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('data' in value && 'shape' in value) return new Tensor(value.data as Float32Array, value.shape as number[]);
  // Tensors come in lists or under names; the other lists are long, and need no look.
  if (Array.isArray(value)) return (value[0] as { data?: unknown } | undefined)?.data ? value.map(revived) : value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, revived(part)]));
}
