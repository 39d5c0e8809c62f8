/**
 * The main thread's connection to a worker. When the worker ends in any way, all calls are rejected, and the worker is
 * terminated unless the caller created it.
 */
import { HeedError } from '../base/error.js';
import type { RawObject } from '../base/owned.js';
import type { WorkerLike } from '../base/platform.js';
import { keepAlive, listen } from '../base/start-worker.js';
import { Channel } from './channel.js';
import { GREETING, type Message } from './protocol.js';
import type { FileServer } from './shared-files.js';

/**
 * A worker with event listeners. It may have several connections, one after the other; those made after its end fail.
 */
interface Listened {
  readonly connections: Set<Connection>;
  /** How the worker ended; null while it runs. */
  ended: { readonly how: string; readonly cause?: unknown } | null;
  /** The greeting and its answer. It is sent only once, because the worker may be busy later. */
  greeting?: { readonly by: Connection; readonly answer: Promise<unknown> } | undefined;
}

/**
 * Milliseconds that a worker may take to load its script and answer the greeting; enough for slow networks and busy
 * machines.
 */
const GREETING_LIMIT = 30_000;

const listenedWorkers = new WeakMap<WorkerLike, Listened>();

/** Adds event listeners to a worker, once. */
function listenedWorker(worker: WorkerLike): Listened {
  const known = listenedWorkers.get(worker);
  if (known) return known;
  const listened: Listened = { connections: new Set(), ended: null };
  listenedWorkers.set(worker, listened);
  const receive = (message: Message) => {
    for (const one of [...listened.connections]) one.receive(message);
  };
  listen(worker, receive, (how, cause) => {
    listened.ended ??= { how, cause };
    for (const one of [...listened.connections]) one.fail(how, cause);
  });
  return listened;
}

function failure(how: string, cause: unknown): HeedError {
  const hint = 'Load the model again, or without `worker`';
  return new HeedError('WORKER_FAILED', `worker: ${how}. ${hint}`, { cause });
}

export class Connection extends Channel implements RawObject {
  readonly #worker: WorkerLike;
  readonly #listened: Listened;
  readonly #owned: Set<RawObject>;
  /**
   * Whether the caller created the worker. If so, heed neither terminates it nor changes whether it keeps Node's
   * process alive.
   */
  protected readonly isCallers: boolean;
  #calls = 0;

  /**
   * `owned`: objects that the runtime deletes on disposal. `files`: serves the model's files, or null if the worker
   * reads them itself.
   */
  constructor(worker: WorkerLike, owned: Set<RawObject>, files: FileServer | null, isCallers = false) {
    super(
      (message) => worker.postMessage(message),
      (_, [request]) => files!.answer(request),
    );
    this.#worker = worker;
    this.#owned = owned;
    this.isCallers = isCallers;
    owned.add(this);
    this.#listened = listenedWorker(worker);
    this.#listened.connections.add(this);
    if (!isCallers) keepAlive(worker, false); // so that the process can exit while no call is pending
    const { ended } = this.#listened;
    if (ended) this.#release(failure(ended.how, ended.cause));
  }

  /**
   * Ends the connection if the worker's script is not heed's or lacks `method`, since another script may ignore all
   * calls. Call this before the first call, which need not wait for the answer.
   */
  async greet(method: string): Promise<void> {
    const other = "the worker does not run heed's worker.js";
    const silent = () => this.fail(`${other}, or has not started within ${GREETING_LIMIT / 1000} s`);
    const timer = setTimeout(silent, GREETING_LIMIT);
    const methods = await this.#greeted();
    clearTimeout(timer);
    if (!Array.isArray(methods) || !methods.includes(method)) this.fail(other);
  }

  /** The worker's answer to the greeting: the names of its methods; null after an error. */
  async #greeted(): Promise<unknown> {
    const listened = this.#listened;
    for (;;) {
      listened.greeting ??= { by: this, answer: this.call<unknown>(GREETING, []).catch(() => null) };
      const { greeting } = listened;
      const answer = await greeting.answer;
      if (answer !== null || !greeting.by.closed) return answer;
      // A connection that ended before the answer says nothing about the worker.
      if (listened.greeting === greeting) listened.greeting = undefined;
      if (this.closed) return null;
    }
  }

  /** Ends the connection because the worker has failed or ended. */
  fail(how: string, cause?: unknown): void {
    this.end(failure(how, cause));
  }

  /** Calls a method of the worker, see `Channel.call`. In Node, a pending call keeps the process alive. */
  override async call<T>(...args: Parameters<Channel['call']>): Promise<T> {
    if (this.isCallers) return super.call<T>(...args);
    if (this.#calls++ === 0) keepAlive(this.#worker, true);
    try {
      return await super.call<T>(...args);
    } finally {
      if (--this.#calls === 0) keepAlive(this.#worker, false);
    }
  }

  /** Rejects all pending and later calls with `reason`, and terminates the worker unless the caller created it. */
  end(reason: HeedError): void {
    if (this.closed && reason.code !== 'DISPOSED') return;
    this.#release(reason);
    if (this.isCallers) return;
    this.#listened.ended ??= { how: 'the worker was terminated' };
    void this.#worker.terminate();
  }

  /** Rejects all pending and later calls with `reason`. */
  #release(reason: HeedError): void {
    this.close(reason);
    this.#owned.delete(this);
    this.#listened.connections.delete(this);
  }

  /** Called by the runtime on disposal. */
  delete(): void {
    this.end(disposed());
  }
}

export function disposed(): HeedError {
  return new HeedError('DISPOSED', 'PretrainedModel: used after dispose()');
}
