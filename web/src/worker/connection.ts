/** The page's connection to a worker. However a worker ends, it is handled here: all its calls are rejected, and the worker is terminated. */
import { HeedError, invalid } from '../error.js';
import type { RawObject } from '../owned.js';
import type { WorkerLike } from '../platform.js';
import { keepAlive, listen } from '../start-worker.js';
import { Channel } from './channel.js';
import type { FileServer } from './files.js';
import type { Message } from './protocol.js';

/** A worker's messages and its end, for the connections to it, which may follow each other: a worker that ended before is known to have. */
interface Line {
  readonly connections: Set<Connection>;
  /** How the worker ended. */
  ended: { readonly how: string; readonly cause?: unknown } | null;
}

const lines = new WeakMap<WorkerLike, Line>();

function lineTo(worker: WorkerLike): Line {
  const known = lines.get(worker);
  if (known) return known;
  const line: Line = { connections: new Set(), ended: null };
  lines.set(worker, line);
  const receive = (message: Message) => {
    for (const one of [...line.connections]) one.receive(message);
  };
  listen(worker, receive, (how, cause) => {
    line.ended ??= { how, cause };
    for (const one of [...line.connections]) one.fail(how, cause);
  });
  return line;
}

function failure(how: string, cause: unknown): HeedError {
  const hint = 'Load the model again, or without `worker`';
  return invalid('worker', "a worker that runs heed's worker.js", how, 'WORKER_FAILED', { hint, cause });
}

export class Connection extends Channel implements RawObject {
  readonly #worker: WorkerLike;
  readonly #line: Line;
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
    this.#line = lineTo(worker);
    this.#line.connections.add(this);
    keepAlive(worker, false); // so that the process can exit while no call is pending
    const { ended } = this.#line;
    if (ended) this.release(failure(ended.how, ended.cause));
  }

  /** Ends it because its worker has failed or ended. */
  fail(how: string, cause?: unknown): void {
    this.end(failure(how, cause));
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
    this.release(reason);
    this.#line.ended ??= { how: 'one that was ended' };
    void this.#worker.terminate();
  }

  /** Rejects all calls, pending and later, with `reason`; the worker goes on. */
  protected release(reason: HeedError): void {
    this.close(reason);
    this.#owned.delete(this);
    this.#line.connections.delete(this);
  }

  /** Disposes of it, for the runtime. */
  delete(): void {
    this.end(disposed());
  }
}

export function disposed(): HeedError {
  return new HeedError('DISPOSED', 'PretrainedModel: used after dispose()');
}
