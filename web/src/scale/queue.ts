/**
 * Distributes chunks through a queue: BullMQ over Redis or PostgreSQL. A job is only a chunk's index. The folder, not
 * the queue, records which chunks are done, and chunks that are missing there are queued again. So a queue that loses
 * its data loses no work, and a chunk that is handed out twice produces no duplicate rows.
 */
import { HeedError } from '../index.js';
import { invalid } from '../node/index.js';
import { planId } from './machine.js';
import type { Manifest } from './manifest.js';
import { abortable, type Signal } from './plan-options.js';
import { isRefusal, requirePeer, serverOf } from './server.js';

type BullMQ = typeof import('bullmq');
type Options = Omit<import('bullmq').QueueOptions<unknown>, 'connection'> & { connection: never };

/** Seconds between checks of the folder while no job ends. */
const INTERVAL = 2;
/** Jobs per request. */
const BATCH = 5000;

/**
 * A client class with an error listener. pg's pool listens only to idle clients; without a listener, a busy client's
 * error event would end the process. The next query reports the lost connection.
 */
const clientsWithListener = ({ Client }: typeof import('pg')) =>
  class extends Client {
    constructor(...config: ConstructorParameters<typeof Client>) {
      super(...config);
      this.on('error', () => {});
    }
  };

export class ChunkQueue {
  readonly #bull: BullMQ;
  readonly #address: string;
  readonly #timeout: number;
  readonly #name: string;
  readonly #options: Options;
  readonly #backend: never;
  readonly #queue: import('bullmq').Queue;
  #worker: import('bullmq').Worker | null = null;
  /** Message of the last error. */
  #problem: string;
  readonly #refused: Promise<never>;
  #refuse: (error: HeedError) => void = () => {};
  #isClosed = false;
  #wake = () => {};

  private constructor(url: string, manifest: Manifest, timeout: number, problem: string) {
    const { kind, address } = serverOf('--queue', url, [
      'redis://host:port',
      'rediss://host:port',
      'postgres://host:port/database',
    ]);
    this.#address = address;
    const isRedis = kind === 'redis';
    const driver = isRedis ? 'ioredis' : 'pg';
    this.#bull = requirePeer<BullMQ>('--queue', 'bullmq', `bullmq ${driver}`);
    const peer = requirePeer<typeof import('pg')>('--queue', driver, `bullmq ${driver}`);
    this.#timeout = timeout;
    this.#problem = problem;
    this.#refused = new Promise((_, reject) => {
      this.#refuse = reject;
    });
    this.#refused.catch(() => {});
    this.#name = `heed-${planId(manifest)}`;
    const connection = isRedis
      ? { url, maxRetriesPerRequest: null, retryStrategy: () => 500 }
      : {
          connectionString: url,
          schema: 'heed',
          migrate: true,
          max: 4,
          connectionTimeoutMillis: 10_000,
          Client: clientsWithListener(peer),
        };
    this.#options = { connection: connection as never, streams: { events: { maxLen: 100 } } };
    this.#backend = (isRedis ? this.#bull.createRedisBackend : this.#bull.createPostgresBackend) as never;
    this.#queue = new this.#bull.Queue(this.#name, this.#options, this.#backend);
    this.#queue.on('error', (error) => this.#note(error));
  }

  /**
   * Connects.
   *
   * @throws HeedError NETWORK if the server refuses the connection or cannot be reached within `timeout` seconds;
   *   UNSUPPORTED if a package is missing; the signal's reason
   */
  static async open(
    url: string,
    manifest: Manifest,
    { timeout = 20, signal }: { timeout?: number | undefined; signal?: Signal | undefined } = {},
  ): Promise<ChunkQueue> {
    const deadline = performance.now() + 1000 * timeout;
    let problem = 'no answer';
    for (;;) {
      const queue = new ChunkQueue(url, manifest, timeout, problem);
      let isOpen = false;
      try {
        // ioredis retries by itself (retryStrategy), so wait for it; pg fails at once, so connect again.
        isOpen = await within(deadline - performance.now(), abortable(signal, queue.#connect()));
        if (isOpen) return queue;
        if (performance.now() >= deadline) throw queue.#away();
        await abortable(signal, sleep(Math.min(500, deadline - performance.now())));
      } finally {
        problem = queue.#problem;
        if (!isOpen) void queue.close();
      }
    }
  }

  /** Returns whether the server answers. @throws HeedError NETWORK if it refuses the connection */
  async #connect(): Promise<boolean> {
    try {
      await Promise.race([this.#refused, this.#queue.waitUntilReady()]);
      return true;
    } catch (error) {
      this.#note(error as Error);
      if (isRefusal(error as Error)) await this.#refused;
      if (error instanceof HeedError) throw error;
      return false;
    }
  }

  #note(error: Error): void {
    const { message, code } = error as NodeJS.ErrnoException;
    this.#problem = message || code || this.#problem;
    if (!isRefusal(error)) return;
    const expected = `a user, a password and a database that the server at ${this.#address} accepts`;
    this.#refuse(invalid('--queue', expected, `the error '${message}'`, 'NETWORK', error));
  }

  #away(): HeedError {
    const hint = 'Finished parts are kept: run the same command again, or with --retry to wait for the server';
    const got = `none within ${this.#timeout} s (${this.#problem}). ${hint}`;
    return invalid('--queue', `a server at ${this.#address}`, got, 'NETWORK');
  }

  /**
   * Queues chunks, unless the queue has at least as many jobs already. Chunks that are queued already are not
   * duplicated.
   */
  async add(chunks: number[]): Promise<void> {
    const { waiting = 0, active = 0 } = await this.#queue.getJobCounts('waiting', 'active');
    // Comparing counts suffices: jobs of finished chunks end as soon as a worker takes them.
    if (waiting + active >= chunks.length) return;
    for (let i = 0; i < chunks.length; i += BATCH) {
      await this.#queue.addBulk(
        chunks.slice(i, i + BATCH).map((chunk) => ({
          name: 'chunk',
          data: { chunk },
          // A retained job would keep its id occupied, so its chunk could not be queued again.
          opts: { jobId: `chunk-${chunk}`, removeOnComplete: true, removeOnFail: true },
        })),
      );
    }
  }

  /**
   * Runs jobs, `count` at a time, until `missing` returns no chunk or the queue is closed. The calling thread must not
   * block, because it renews the locks of the running jobs.
   *
   * @throws what `embed` throws, or HeedError NETWORK if the server cannot be reached for too long
   */
  async consume(
    embed: (chunk: number) => Promise<void>,
    missing: () => Promise<number[]>,
    count: number,
    lock: number,
  ): Promise<void> {
    let failure: { error: unknown } | null = null;
    let busy = 0;
    const run = async (job: { data: { chunk: number } }) => {
      busy++;
      try {
        await embed(job.data.chunk);
      } catch (error) {
        failure = { error };
        throw error;
      } finally {
        busy--;
        this.#wake();
      }
    };
    this.#worker = new this.#bull.Worker(
      this.#name,
      run,
      {
        ...this.#options,
        concurrency: count,
        lockDuration: 1000 * lock,
        stalledInterval: 1000 * lock,
        maxStalledCount: 1_000_000, // a crashed process does not mean that its chunk is faulty
        drainDelay: 1,
      },
      this.#backend,
    );
    this.#worker.on('error', (error) => this.#note(error));
    let seen = performance.now();
    while (!this.#isClosed) {
      if (failure) throw (failure as { error: unknown }).error;
      const chunks = await missing();
      if (chunks.length === 0) return;
      if (busy < count) {
        // Only processes with idle threads refill the queue, so that busy ones send no extra requests.
        const added = this.add(chunks).then(() => true);
        const answer = await within(5000, added).catch((error: Error) => {
          this.#note(error);
          return false;
        });
        if (answer) seen = performance.now();
        else if (performance.now() - seen > 1000 * this.#timeout) throw this.#away();
      } else seen = performance.now();
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 1000 * INTERVAL);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Closes the connections, waiting at most 3 s for the server. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wake();
    const closing = [this.#worker?.close(true), this.#queue.close()].map((each) => each?.catch(() => {}));
    await within(3000, Promise.all(closing));
    this.#worker?.disconnect().catch(() => {});
    this.#queue.disconnect().catch(() => {});
  }

  /** Deletes all data of this plan on the server. */
  async delete(): Promise<void> {
    await this.#queue.obliterate({ force: true });
  }
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Resolves to the value of `promise`, or to false after `ms` milliseconds. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T | false> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.min(ms, 2 ** 31 - 1));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
