/** A pretrained encoder in a worker of its own: the same interface as in this thread, every call a message. */
import { HeedError } from '../error.js';
import type { HeadName } from '../models/heads.js';
import type { ModelInput } from '../models/input.js';
import type { LoadModelOptions } from '../models/load.js';
import type {
  CallOptions,
  EmbedOptions,
  EncodeOptions,
  EncodeResult,
  ModelConfig,
  Prediction,
  PredictOptions,
  PretrainedModel,
  TokenizeOptions,
  TokenizeResult,
} from '../models/model.js';
import { type ModelSource, portable } from '../models/source.js';
import type { WasmModule } from '../module.js';
import { callback, plainOptions, signal } from '../options.js';
import { dispose, nodeModule, registry, type SignalLike, type WorkerLike } from '../platform.js';
import { Tensor } from '../tensor.js';
import { type Answer, type Loaded, type Method, type Request, unpackError } from './protocol.js';

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

class WorkerModel implements PretrainedModel {
  readonly config: ModelConfig;
  readonly threads = { count: 1, reason: 'the model runs in one worker; ask for `threads` to have several' };
  readonly #connection: Connection;
  #disposed = false;

  constructor(connection: Connection, config: ModelConfig) {
    this.config = config;
    this.#connection = connection;
    forgotten?.register(this, connection, this);
  }

  get disposed(): boolean {
    return this.#disposed;
  }

  async encode(input: ModelInput, options?: EncodeOptions): Promise<EncodeResult> {
    const result = await this.#call<EncodeResult>('encode', [input], options);
    result.lastHiddenState = revived(result.lastHiddenState);
    result.attentionMask = revived(result.attentionMask);
    if (result.poolerOutput) result.poolerOutput = revived(result.poolerOutput);
    if (result.attentions) result.attentions = result.attentions.map(revived);
    if (result.hiddenStates) result.hiddenStates = result.hiddenStates.map(revived);
    return result;
  }

  async embed(input: ModelInput, options?: EmbedOptions): Promise<Tensor> {
    return revived(await this.#call<Tensor>('embed', [input], options));
  }

  tokenize(texts: string | readonly string[], options?: TokenizeOptions): Promise<TokenizeResult> {
    return this.#call('tokenize', [texts], options);
  }

  async predict(head: HeadName, input: ModelInput, options?: PredictOptions): Promise<Prediction> {
    const result = await this.#call<Prediction>('predict', [head, input], options);
    return { ...result, logits: revived(result.logits) };
  }

  decode(ids: readonly number[]): Promise<string> {
    return this.#call('decode', [ids], null); // takes no options
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    forgotten?.unregister(this);
    this.#connection.end(
      new HeedError('DISPOSED', 'PretrainedModel: got a call after dispose(); expected one before it'),
    );
  }

  [dispose](): void {
    this.dispose();
  }

  async #call<T>(method: Method, args: unknown[], options: object | null | undefined): Promise<T> {
    const { signal, onProgress, ...rest } = readCall(method, options === null ? {} : options);
    const request = (id: number): Request & { type: 'call' } => ({
      type: 'call',
      id,
      method,
      args,
      options: options === null ? null : rest,
      progress: onProgress !== undefined,
    });
    return this.#connection.ask<T>(request, signal, onProgress);
  }
}

/** Options of a call, of which those that stay on this side are checked here, and the others where the model is. */
export function readCall<T extends CallOptions>(owner: string, options: T | undefined) {
  const read = plainOptions(owner, options);
  return {
    ...read,
    signal: signal(read.signal, `${owner}.signal`),
    onProgress: callback<NonNullable<CallOptions['onProgress']>>(read.onProgress, `${owner}.onProgress`),
  };
}

/** A cloned tensor has lost its class. */
function revived<Data extends Float32Array | Uint8Array>({ data, shape }: Tensor<Data>): Tensor<Data> {
  return new Tensor(data, shape);
}
