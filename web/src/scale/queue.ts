/**
 * A queue that hands out chunks: BullMQ over Redis or PostgreSQL. A job is a chunk's number and nothing else, and the queue decides nothing: which chunks are done is read from the
 * folder, and whatever is missing there is added again. So a queue that loses its data loses no work, and one that hands out a chunk twice duplicates no row.
 */
import { invalid } from '../cli/error.js';
import type { HeedError } from '../index.js';
import { requirePeer } from './database.js';
import { planId } from './machine.js';
import type { Manifest } from './manifest.js';

type BullMQ = typeof import('bullmq');
type Options = Omit<import('bullmq').QueueOptions<unknown>, 'connection'> & { connection: never };

/** Seconds between looks at the folder while nothing else happens. */
const INTERVAL = 2;
/** Jobs per request. */
const BATCH = 5000;

export class ChunkQueue {
  readonly #bull: BullMQ;
  readonly #address: string;
  readonly #timeout: number;
  readonly #name: string;
  readonly #options: Options;
  readonly #backend: never;
  readonly #queue: import('bullmq').Queue;
  #worker: import('bullmq').Worker | null = null;
  #problem = 'no answer';

  private constructor(url: string, manifest: Manifest, timeout: number) {
    const [scheme = ''] = /^\w+(?=:\/\/.)/.exec(url) ?? [];
    const isRedis = /^rediss?$/.test(scheme);
    if (!isRedis && !/^postgres(ql)?$/.test(scheme))
      throw invalid('--queue', 'redis://host:port, rediss://host:port or postgres://host:port/database', `'${url}'`);
    this.#address = url.replace(/(?<=:\/\/)[^@/]*@/, ''); // without a password
    const driver = isRedis ? 'ioredis' : 'pg';
    this.#bull = requirePeer<BullMQ>('--queue', 'bullmq', `bullmq ${driver}`);
    requirePeer('--queue', driver, `bullmq ${driver}`);
    this.#timeout = timeout;
    this.#name = `heed-${planId(manifest)}`;
    const connection = isRedis
      ? { url, maxRetriesPerRequest: null, retryStrategy: () => 500 }
      : { connectionString: url, schema: 'heed', migrate: true, max: 4, connectionTimeoutMillis: 10_000 };
    this.#options = { connection: connection as never, streams: { events: { maxLen: 100 } } };
    this.#backend = (isRedis ? this.#bull.createRedisBackend : this.#bull.createPostgresBackend) as never;
    this.#queue = new this.#bull.Queue(this.#name, this.#options, this.#backend);
    this.#queue.on('error', (error) => this.#note(error));
  }

  /** Connects. @throws HeedError NETWORK if the server cannot be reached within `timeout` seconds; UNSUPPORTED if a package is missing */
  static async open(url: string, manifest: Manifest, timeout = 20): Promise<ChunkQueue> {
    const deadline = performance.now() + 1000 * timeout;
    for (;;) {
      const queue = new ChunkQueue(url, manifest, timeout);
      // A backend that gives up at once is opened again; one that waits for its server is waited for.
      const open = queue.#queue.waitUntilReady().then(() => true);
      const left = Math.max(0, deadline - performance.now());
      const isOpen = await within(left, open).catch(async (error: Error) => {
        queue.#note(error);
        await sleep(Math.min(500, left));
        return false;
      });
      if (isOpen) return queue;
      await queue.close();
      if (performance.now() >= deadline) throw queue.#away();
    }
  }

  #note(error: Error): void {
    const { message, code } = error as NodeJS.ErrnoException;
    this.#problem = message || code || this.#problem;
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
   * Runs jobs, `count` at a time, until `missing` finds no chunk. The thread that calls this must not compute: it renews the locks of the running jobs.
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
    let wake = () => {};
    const run = async (job: { data: { chunk: number } }) => {
      busy++;
      try {
        await embed(job.data.chunk);
      } catch (error) {
        failure = { error };
        throw error;
      } finally {
        busy--;
        wake();
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
    for (;;) {
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
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Ends the connections. A server that does not answer is not waited for. */
  async close(): Promise<void> {
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
