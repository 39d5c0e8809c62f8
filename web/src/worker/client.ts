/** A pretrained encoder in a worker of its own: the same interface as in this thread, every call a message. */
import { HeedError } from '../error.js';
import type { LoadModelOptions } from '../models/load.js';
import type { CallOptions, ModelConfig, PretrainedModel } from '../models/model.js';
import { type ModelSource, portable } from '../models/source.js';
import type { WasmModule } from '../module.js';
import { callback, plainOptions, signal } from '../options.js';
import { nodeModule, registry, type SignalLike, type WorkerLike } from '../platform.js';
import { Tensor } from '../tensor.js';
import { type Answer, type Arguments, type Loaded, type Method, type Request, unpackError } from './protocol.js';
import { type Called, RemoteModel } from './remote.js';

interface Waiting {
  resolve(value: unknown): void;
  reject(error: unknown): void;
  onProgress: ((progress: never) => void) | undefined;
  release(): void;
}

type NodeWorker = import('node:worker_threads').Worker;

/** A worker and what is waited for from it. */
class Connection {
  private readonly waiting = new Map<number, Waiting>();
  private nextId = 0;
  /** Why it answers no more. */
  private ended: HeedError | null = null;

  constructor(private readonly worker: WorkerLike) {
    const failed = (what: string) =>
      this.end(
        new HeedError(
          'WORKER_FAILED',
          `worker: ${what}; expected one that runs heed's worker.js. Load the model again, or without \`worker\``,
        ),
      );
    if (typeof (worker as NodeWorker).on === 'function') {
      const node = worker as NodeWorker;
      node.on('message', (answer: Answer) => this.receive(answer));
      node.on('error', (error) => failed(`it failed (${error instanceof Error ? error.message : String(error)})`));
      node.on('exit', (code) => failed(`it ended (exit code ${code})`));
      node.unref(); // a process whose work is done may end
    } else {
      const web = worker as Worker;
      web.onmessage = ({ data }: MessageEvent<Answer>) => this.receive(data);
      web.onerror = (event) => {
        event.preventDefault();
        failed(`it failed (${event.message ?? 'its script could not be loaded'})`);
      };
      web.onmessageerror = () => failed('a message could not be read');
    }
  }

  /** Sends a request; its promise settles with the answer, with the signal's reason, or with the worker's end. */
  ask<T>(
    make: (id: number) => Exclude<Request, { type: 'abort' }>,
    signal: SignalLike | undefined,
    onProgress: Waiting['onProgress'],
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.ended) throw this.ended;
      signal?.throwIfAborted();
      const id = this.nextId++;
      const onAbort = () => {
        this.post({ type: 'abort', id });
        this.settle(id)?.reject(signal!.reason);
      };
      signal?.addEventListener('abort', onAbort);
      const release = () => signal?.removeEventListener('abort', onAbort);
      this.waiting.set(id, { resolve: resolve as (value: unknown) => void, reject, onProgress, release });
      if (this.waiting.size === 1) (this.worker as NodeWorker).ref?.();
      try {
        this.post(make(id));
      } catch (cause) {
        const what = cause instanceof Error ? cause.message : String(cause);
        this.settle(id)?.reject(
          new HeedError(
            'INVALID_ARGUMENT',
            `worker: got an argument that cannot be sent to a worker (${what}); expected plain data`,
            { cause },
          ),
        );
      }
    });
  }

  end(reason: HeedError): void {
    if (this.ended) return;
    this.ended = reason;
    for (const id of [...this.waiting.keys()]) this.settle(id)?.reject(reason);
    void this.worker.terminate();
  }

  private post(request: Request): void {
    this.worker.postMessage(request);
  }

  private receive(answer: Answer): void {
    if (answer.type === 'progress') {
      try {
        this.waiting.get(answer.id)?.onProgress?.(answer.progress as never);
      } catch (error) {
        this.post({ type: 'abort', id: answer.id });
        this.settle(answer.id)?.reject(error);
      }
    } else if (answer.type === 'error') this.settle(answer.id)?.reject(unpackError(answer.error));
    else this.settle(answer.id)?.resolve(answer.value);
  }

  private settle(id: number): Waiting | undefined {
    const waiting = this.waiting.get(id);
    waiting?.release();
    this.waiting.delete(id);
    if (this.waiting.size === 0) (this.worker as NodeWorker).unref?.();
    return waiting;
  }
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

/** Loads a model in a worker: heed's own, or one that the caller made and that runs heed's worker.js. */
export async function loadInWorker(
  wasm: WasmModule,
  source: ModelSource,
  { signal, onProgress, ...options }: LoadModelOptions,
  worker?: WorkerLike,
): Promise<PretrainedModel> {
  signal?.throwIfAborted();
  const connection = new Connection(worker ?? startWorker());
  try {
    const request = (id: number): Request & { type: 'load' } => ({
      type: 'load',
      id,
      source: portable(source, options.remoteHost),
      options,
      wasm,
      progress: onProgress !== undefined,
    });
    const { config } = await connection.ask<Loaded>(request, signal, onProgress);
    return new WorkerModel(connection, config);
  } catch (error) {
    connection.end(new HeedError('WORKER_FAILED', 'worker: its model could not be loaded'));
    throw error;
  }
}

class WorkerModel extends RemoteModel {
  readonly config: ModelConfig;
  readonly threads = { count: 1, reason: 'the model runs in one worker; ask for `threads` to have several' };
  readonly #connection: Connection;
  #disposed = false;

  constructor(connection: Connection, config: ModelConfig) {
    super();
    this.config = config;
    this.#connection = connection;
    forgotten?.register(this, connection, this);
  }

  get disposed(): boolean {
    return this.#disposed;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    forgotten?.unregister(this);
    this.#connection.end(
      new HeedError('DISPOSED', 'PretrainedModel: got a call after dispose(); expected one before it'),
    );
  }

  protected call<M extends Method>(method: M, args: Arguments<M>): Called<M> {
    return this.#ask(method, args) as Called<M>;
  }

  async #ask(method: Method, args: readonly unknown[]): Promise<unknown> {
    const place = OPTIONS_PLACE[method];
    const { signal, onProgress, ...rest } = readCall(method, (place === null ? {} : args[place]) as object | undefined);
    const request = (id: number): Request & { type: 'call' } => ({
      type: 'call',
      id,
      method,
      args: args.slice(0, place ?? 1),
      options: place === null ? null : rest,
      progress: onProgress !== undefined,
    });
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
