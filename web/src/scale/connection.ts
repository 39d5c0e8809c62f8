/**
 * Connections to the server of a queue. They are never repaired: BullMQ remembers some failures for as long as its
 * objects live, and waits for some answers forever. After a failure they are destroyed, and new ones are made.
 */
import { Socket } from 'node:net';
import { limited } from './server.js';

export type Job = import('bullmq').Job<{ chunk: number }>;
type Worker = import('bullmq').Worker;
type Options = Omit<import('bullmq').QueueOptions, 'connection'> & { connection: never };

export interface Setup {
  /** Name of the queue. */
  name: string;
  url: string;
  bull: typeof import('bullmq');
  /** The package pg, or null for Redis. */
  pg: typeof import('pg') | null;
  /** Seconds until a job's lock expires. */
  lock: number;
}

/** Whether an error is the server's answer to a request about a job, for example that another worker has its lock. */
export const isAnswer = (error: unknown): boolean => typeof (error as { code?: unknown }).code === 'number';

/** Prevents error events without a listener, which would end the process. Requests report the errors. */
const ignore = () => {};

export class Connection {
  readonly queue: import('bullmq').Queue;
  readonly #sockets = new Set<Socket>();
  readonly #makeWorker: () => Worker;
  #worker: Worker | null = null;
  #working: Promise<Worker> | null = null;
  /** Functions that reject the pending requests. */
  readonly #pending = new Set<(error: Error) => void>();
  #error: Error | null = null;
  #isClosed = false;

  constructor({ name, url, bull, pg, lock }: Setup) {
    const connection = pg ? this.#postgres(url, pg) : { url, maxRetriesPerRequest: null, retryStrategy: () => null };
    const options: Options = { connection: connection as never, streams: { events: { maxLen: 100 } } };
    const backend = (pg ? bull.createPostgresBackend : bull.createRedisBackend) as never;
    this.queue = new bull.Queue(name, options, backend);
    this.queue.on('error', (error) => this.#fail(error));
    const locks = { lockDuration: 1000 * lock, stalledInterval: 1000 * lock };
    // A crashed process does not mean that its chunk is faulty.
    this.#makeWorker = () => new bull.Worker(name, null, { ...options, ...locks, maxStalledCount: 1_000_000 }, backend);
  }

  /** The worker, which takes jobs by hand. Made when it is first needed, as it has connections of its own. */
  worker(): Promise<Worker> {
    const start = async () => {
      if (this.#isClosed) throw this.#error ?? new Error('the connection is closed');
      this.#worker = this.#makeWorker();
      this.#worker.on('error', (error) => this.#fail(error));
      await this.#worker.waitUntilReady();
      await this.#worker.startStalledCheckTimer();
      return this.#worker;
    };
    this.#working ??= start();
    return this.#working;
  }

  /** Options of pg. Its sockets are made here, so that they can be destroyed. */
  #postgres(url: string, { Client }: typeof import('pg')) {
    const sockets = this.#sockets;
    const isClosed = () => this.#isClosed;
    return {
      connectionString: url,
      schema: 'heed',
      migrate: true,
      max: 4,
      stream() {
        const socket = new Socket();
        sockets.add(socket);
        socket.on('connect', () => isClosed() && socket.destroy());
        socket.on('close', () => sockets.delete(socket));
        return socket;
      },
      // pg's pool listens only to idle clients.
      Client: class extends Client {
        constructor(...config: ConstructorParameters<typeof Client>) {
          super(...config);
          this.on('error', ignore);
        }
      },
    };
  }

  /** Rejects as the request does, at the first error of the connection, or after `limit` milliseconds. */
  async send<T>(request: (connection: this) => Promise<T>, limit: number): Promise<T> {
    if (this.#error) throw this.#error;
    let reject: (error: Error) => void = ignore;
    const failed = new Promise<never>((_, failing) => {
      reject = failing;
    });
    this.#pending.add(reject);
    try {
      return await limited(limit, Promise.race([failed, this.queue.waitUntilReady().then(() => request(this))]));
    } finally {
      this.#pending.delete(reject);
    }
  }

  #fail(error: Error): void {
    this.#error ??= error;
    for (const reject of this.#pending) reject(this.#error);
  }

  /** Closes at once. Pending requests are rejected with `error`. */
  destroy(error: Error): void {
    this.#fail(error);
    void this.close(0);
  }

  /** Closes, waiting at most `limit` milliseconds for the server. */
  async close(limit: number): Promise<void> {
    this.#isClosed = true;
    const closing = Promise.allSettled([this.#worker?.close(true), this.queue.close()]);
    if (limit > 0) await limited(limit, closing).catch(ignore);
    for (const socket of this.#sockets) socket.destroy();
    this.#worker?.disconnect().catch(ignore);
    this.queue.disconnect().catch(ignore);
  }
}
