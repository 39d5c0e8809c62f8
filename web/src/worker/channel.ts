/** One end of the protocol: calls methods of the other end and serves its calls. */
import { describe, type HeedError, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import { type Message, packError, revived, unpackError } from './protocol.js';

type OnProgress = (progress: never) => void;

interface PendingCall {
  resolve(value: never): void;
  reject(error: unknown): void;
  onProgress: OnProgress | undefined;
  /** Stops listening to the caller's signal. */
  unlink(): void;
}

/**
 * Ids are unique across channels, so that a late answer never matches another call after a worker has been reconnected.
 */
let nextId = 0;

export class Channel {
  /** The error with which the channel was closed; null while it is open. */
  closed: HeedError | null = null;
  readonly #post: (message: Message) => void;
  readonly #serve: (method: string, args: never[]) => Promise<unknown>;
  /** Calls to the other end that are not answered yet. */
  readonly #pending = new Map<number, PendingCall>();
  /** Calls of the other end that are running here. */
  readonly #running = new Map<number, AbortController>();

  /** `serve` runs the calls of the other end. */
  constructor(post: (message: Message) => void, serve: (method: string, args: never[]) => Promise<unknown>) {
    this.#post = post;
    this.#serve = serve;
  }

  /** Calls a method of the other end. The promise settles with the answer, with the signal's reason, or when the channel is closed. */
  call<T>(
    method: string,
    args: unknown[],
    options: object | null = null,
    signal?: SignalLike,
    onProgress?: OnProgress,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.closed) throw this.closed;
      signal?.throwIfAborted();
      const id = nextId++;
      const onAbort = () => this.#abandon(id, signal!.reason);
      signal?.addEventListener('abort', onAbort);
      const unlink = () => signal?.removeEventListener('abort', onAbort);
      this.#pending.set(id, { resolve, reject, onProgress, unlink });
      try {
        this.#post({ type: 'call', id, method, args, options, progress: onProgress !== undefined });
      } catch (cause) {
        const got = `an argument that cannot be sent to a worker (${describe(cause)})`;
        this.#settle(id)?.reject(invalid('worker', 'plain data', got, 'INVALID_ARGUMENT', { cause }));
      }
    });
  }

  /** Handles a message from the other end. Other scripts may send messages of their own, which are ignored. */
  receive(message: Message): void {
    const id = message?.id;
    const type = message?.type;
    if (type === 'call') void this.#run(message);
    else if (type === 'abort') this.#running.get(id)?.abort();
    else if (type === 'result') this.#settle(id)?.resolve(revived(message.value) as never);
    else if (type === 'error') this.#settle(id)?.reject(unpackError(message.error));
    else if (type === 'progress') {
      try {
        this.#pending.get(id)?.onProgress?.(message.progress as never);
      } catch (error) {
        this.#abandon(id, error);
      }
    }
  }

  /** Rejects all pending and later calls with `reason`. */
  close(reason: HeedError): void {
    this.closed = reason;
    for (const id of [...this.#pending.keys()]) this.#settle(id)?.reject(reason);
  }

  async #run({ id, method, args, options, progress }: Extract<Message, { type: 'call' }>): Promise<void> {
    const answer = (message: Message) => this.closed || this.#post(message);
    const stop = new AbortController();
    const onProgress = progress && ((progress: unknown) => answer({ type: 'progress', id, progress }));
    this.#running.set(id, stop);
    try {
      const control = options && { ...options, signal: stop.signal, ...(onProgress && { onProgress }) };
      const value = await this.#serve(method, (control ? [...args, control] : args) as never[]);
      answer({ type: 'result', id, value });
    } catch (error) {
      // Also answers if the result cannot be sent, because the caller waits.
      answer({ type: 'error', id, error: packError(error) });
    }
    this.#running.delete(id);
  }

  /** Rejects a call and tells the other end to stop it. */
  #abandon(id: number, reason: unknown): void {
    this.#settle(id)?.reject(reason);
    this.#post({ type: 'abort', id });
  }

  #settle(id: number): PendingCall | undefined {
    const call = this.#pending.get(id);
    call?.unlink();
    this.#pending.delete(id);
    return call;
  }
}
