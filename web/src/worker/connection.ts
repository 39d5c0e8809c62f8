/** The page's connection to a worker. However a worker ends, it is handled here: all its calls are rejected, and the worker is terminated. */
import { HeedError, invalid } from '../error.js';
import type { RawObject } from '../owned.js';
import type { WorkerLike } from '../platform.js';
import { Channel } from './channel.js';
import type { FileServer } from './files.js';
import type { Message } from './protocol.js';
import { keepAlive, listen } from './start.js';

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
    listen(worker, receive, failed);
    keepAlive(worker, false); // so that the process can exit while no call is pending
  }

  /** As in Channel. In Node, a pending call keeps the process alive. */
  override async call<T>(...args: Parameters<Channel['call']>): Promise<T> {
    if (this.#calls++ === 0) keepAlive(this.#worker, true);
    try {
      return await super.call<T>(...args);
    } finally {
      if (--this.#calls === 0) keepAlive(this.#worker, false);
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
