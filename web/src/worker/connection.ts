/** The page's connection to a worker. However a worker ends, it is handled here: all its calls are rejected, and the worker is terminated. */
import { describe, HeedError, invalid } from '../error.js';
import type { RawObject } from '../owned.js';
import { nodeModule, type WorkerLike } from '../platform.js';
import { Channel } from './channel.js';
import type { FileServer } from './files.js';
import type { Message } from './protocol.js';

type NodeWorker = import('node:worker_threads').Worker;

export class Connection extends Channel implements RawObject {
  readonly #worker: WorkerLike;
  readonly #owned: Set<RawObject>;
  #calls = 0;

  /** `owned`: what the runtime deletes when it is disposed of; `files`: serves the model's files if the worker does not read them itself. */
  constructor(worker: WorkerLike, owned: Set<RawObject>, files: FileServer | null) {
    super(
      (message) => worker.postMessage(message),
      (_, [request]) => files!.answer(request),
    );
    this.#worker = worker;
    this.#owned = owned;
    owned.add(this);
    const receive = (message: Message) => this.receive(message);
    const failed = (got: string, cause?: unknown) =>
      this.end(
        invalid('worker', "a worker that runs heed's worker.js", got, 'WORKER_FAILED', {
          hint: 'Load the model again, or without `worker`',
          cause,
        }),
      );
    const unreadable = () => failed('a message that cannot be read');
    // Listeners rather than `onmessage` and `onerror`, which the caller may have set.
    if (typeof (worker as NodeWorker).on === 'function') {
      const node = worker as NodeWorker;
      node.on('message', receive);
      node.on('messageerror', unreadable);
      node.on('error', (error) => failed(`one that failed (${describe(error)})`, error));
      node.on('exit', (code) => failed(`one that ended (exit code ${code})`));
      node.unref(); // so that the process can exit while no call is pending
      if (node.threadId === -1) failed('one that has ended');
    } else {
      const web = worker as Worker;
      web.addEventListener('message', ({ data }: MessageEvent<Message>) => receive(data));
      web.addEventListener('messageerror', unreadable);
      web.addEventListener('error', (event) => {
        event.preventDefault();
        failed(`one that failed (${event.message || 'its script could not be loaded'})`, event.error ?? undefined);
      });
    }
  }

  /** As in Channel. In Node, a pending call keeps the process alive. */
  override async call<T>(...args: Parameters<Channel['call']>): Promise<T> {
    const node = this.#worker as NodeWorker;
    if (this.#calls++ === 0) node.ref?.();
    try {
      return await super.call<T>(...args);
    } finally {
      if (--this.#calls === 0) node.unref?.();
    }
  }

  /** Rejects all calls, pending and later, with `reason`, and terminates the worker. */
  end(reason: HeedError): void {
    if (this.closed && reason.code !== 'DISPOSED') return;
    this.close(reason);
    this.#owned.delete(this);
    void this.#worker.terminate();
  }

  /** Disposes of it, for the runtime. */
  delete(): void {
    this.end(disposed());
  }
}

export function disposed(): HeedError {
  return new HeedError('DISPOSED', 'PretrainedModel: used after dispose()');
}

export function startWorker(): WorkerLike {
  const threads = nodeModule<typeof import('node:worker_threads')>('worker_threads');
  try {
    if (threads) return new threads.Worker(new URL('./worker.js', import.meta.url)) as unknown as WorkerLike;
    if (typeof Worker !== 'function')
      throw invalid('worker', 'a page or Node', 'an environment without workers', 'UNSUPPORTED', {
        hint: 'Leave `worker` out',
      });
    // Bundlers recognize exactly this expression, and make the script a bundle of its own.
    return new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }) as unknown as WorkerLike;
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    const got = `one that cannot be started (${(cause as Error).message})`;
    throw invalid('worker', "heed's worker.js next to heed's script", got, 'WORKER_FAILED', { cause });
  }
}
