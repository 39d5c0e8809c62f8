/**
 * A queue that hands out chunks: BullMQ over Redis or PostgreSQL. A job is a chunk's number and nothing else, and the queue decides nothing: which chunks are done is read from the
 * folder, and whatever is missing there is added again. So a queue that loses its data loses no work, and one that hands out a chunk twice duplicates no row.
 */
import { HeedError } from '../index.js';
import { invalid } from '../node/index.js';
import { planId } from './machine.js';
import type { Manifest } from './manifest.js';
import { abortable, type Signal } from './plan-options.js';
import { isRefusal, requirePeer, serverOf } from './server.js';

type BullMQ = typeof import('bullmq');
type Options = Omit<import('bullmq').QueueOptions<unknown>, 'connection'> & { connection: never };

/** Seconds between looks at the folder while nothing else happens. */
const INTERVAL = 2;
/** Jobs per request. */
const BATCH = 5000;

/** Clients whose next query reports a lost connection. A pool listens to idle ones only, and an error of another without a listener would end the process. */
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
  /** The last error. */
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
   * @throws HeedError NETWORK if the server refuses the connection, or cannot be reached within `timeout` seconds; UNSUPPORTED if a package is missing; the signal's reason
   */
  static async open(
    url: string,
    manifest: Manifest,
    { timeout = 20, signal }: { timeout?: number; signal?: Signal } = {},
  ): Promise<ChunkQueue> {
    const deadline = performance.now() + 1000 * timeout;
    let problem = 'no answer';
    for (;;) {
      const queue = new ChunkQueue(url, manifest, timeout, problem);
      let isOpen = false;
      try {
        // A backend that waits for its server is waited for; one that gives up at once is opened again.
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

  /** Whether the server answers. @throws HeedError NETWORK if it refuses the connection */
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

  /** Adds the chunks that the queue does not have. */
  async add(chunks: number[]): Promise<void> {
    const { waiting = 0, active = 0 } = await this.#queue.getJobCounts('waiting', 'active');
    // Enough jobs for them all, if not for exactly these: the others end as soon as someone looks at them.
    if (waiting + active >= chunks.length) return;
    for (let i = 0; i < chunks.length; i += BATCH) {
      await this.#queue.addBulk(
        chunks.slice(i, i + BATCH).map((chunk) => ({
          name: 'chunk',
          data: { chunk },
          // A job that is kept would block its id, and a chunk could not be added again.
          opts: { jobId: `chunk-${chunk}`, removeOnComplete: true, removeOnFail: true },
        })),
      );
    }
  }

  /**
   * Runs jobs, `count` at a time, until `missing` finds no chunk or the queue is closed. The thread that calls this must not compute: it renews the locks of the running jobs.
   *
   * @throws what `embed` throws, or HeedError NETWORK if the server is away for too long
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
        maxStalledCount: 1_000_000, // a process that dies says nothing about its chunk
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
        // Only who has nothing to do looks after the queue, so that many processes do not.
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

  /** Ends the connections. A server that does not answer is not waited for. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wake();
    const closing = [this.#worker?.close(true), this.#queue.close()].map((each) => each?.catch(() => {}));
    await within(3000, Promise.all(closing));
    this.#worker?.disconnect().catch(() => {});
    this.#queue.disconnect().catch(() => {});
  }

  /** Deletes what the server has of this plan. */
  async delete(): Promise<void> {
    await this.#queue.obliterate({ force: true });
  }
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** What `promise` resolves to, or false after `ms` milliseconds. */
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
