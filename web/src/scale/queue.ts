/**
 * Distributes chunks through a queue: BullMQ over Redis or PostgreSQL. A job is only a chunk's index. The folder, not
 * the queue, records which chunks are done, and chunks that are missing there are queued again. So a queue that loses
 * its data loses no work, and a chunk that is handed out twice produces no duplicate rows.
 *
 * All requests to the server go through `#attempt`, which limits their time and replaces the connection after a
 * failure. So a worker continues, or ends with a reason, whatever the server does.
 */
import { randomUUID } from 'node:crypto';
import { abortable } from '../base/event-loop.js';
import { invalid } from '../node/index.js';
import { Connection, isAnswer, type Job, type Setup } from './connection.js';
import { planId } from './machine.js';
import type { Manifest } from './manifest.js';
import type { ServerOptions } from './plan-options.js';
import { addressOf, isRefusal, NO_ANSWER, requirePeer } from './server.js';

/** Seconds between checks of the folder while no job ends. */
const INTERVAL = 2;
/** Jobs per request. */
const BATCH = 500;
/** Maximum duration of a request in seconds. */
const REQUEST = 10;
/** Seconds between attempts. */
const PAUSE = 0.5;
/**
 * Seconds for which a server that has accepted a connection may then refuse connections: its database may be about to
 * be created anew.
 */
const REFUSING = 20;

export interface QueueOptions extends ServerOptions {
  /** Seconds after which the chunk of a crashed process is handed out again. Needed by `consume`. */
  lock?: number | undefined;
}

/** A job that this process has, with the token of its lock. */
interface Held {
  job: Job;
  token: string;
  connection: Connection;
}

export class ChunkQueue {
  readonly #address: string;
  readonly #timeout: number;
  readonly #setup: Setup;
  #connection: Connection | null = null;
  #wasOpen = false;
  #isClosed = false;
  #wake = () => {};

  private constructor({ queue: url = '', queueTimeout = 20, lock = 30 }: QueueOptions, manifest: Manifest) {
    const examples = ['redis://host:port', 'rediss://host:port', 'postgres://host:port/database'];
    this.#address = addressOf('queue', url, examples);
    const driver = url.startsWith('redis') ? 'ioredis' : 'pg';
    const bull = requirePeer<typeof import('bullmq')>('queue', 'bullmq', `bullmq ${driver}`);
    const peer = requirePeer<typeof import('pg')>('queue', driver, `bullmq ${driver}`);
    this.#timeout = queueTimeout;
    this.#setup = { name: `heed-${planId(manifest)}`, url, bull, pg: driver === 'pg' ? peer : null, lock };
  }

  /**
   * Connects.
   *
   * @throws HeedError NETWORK if the server refuses the connection or cannot be reached within `queueTimeout`
   *   seconds;
   *   UNSUPPORTED if a package is missing; the signal's reason
   */
  static async open(options: QueueOptions, manifest: Manifest): Promise<ChunkQueue> {
    const queue = new ChunkQueue(options, manifest);
    try {
      await abortable(
        queue.#ask(async () => {}),
        options.signal,
      );
      return queue;
    } catch (error) {
      void queue.close(); // not awaited, because the server may not answer
      throw error;
    }
  }

  /**
   * Queues chunks, unless the queue has at least as many jobs already. Chunks that are queued already are not
   * duplicated.
   */
  async add(chunks: number[]): Promise<void> {
    const { waiting = 0, active = 0 } = await this.#ask(({ queue }) => queue.getJobCounts('waiting', 'active'));
    // Comparing counts suffices: jobs of finished chunks end as soon as a worker takes them.
    if (waiting + active >= chunks.length) return;
    for (let i = 0; i < chunks.length; i += BATCH) {
      const jobs = chunks.slice(i, i + BATCH).map((chunk) => ({
        name: 'chunk',
        data: { chunk },
        // A retained job would keep its id occupied, so its chunk could not be queued again.
        opts: { jobId: `chunk-${chunk}`, removeOnComplete: true, removeOnFail: true },
      }));
      await this.#ask(({ queue }) => queue.addBulk(jobs));
    }
  }

  /**
   * Runs chunks, `count` at a time, until `missing` returns none or the queue is closed. The calling thread must not
   * block, because it renews the locks of the running jobs.
   *
   * A process that the queue gives no chunk for the time of a lock runs missing chunks by itself. Otherwise, jobs of dead
   * workers could block it forever: over PostgreSQL, their locks expire by those workers'
   * clocks.
   *
   * @throws what `embed` throws, or HeedError NETWORK if the server cannot be reached for too long
   */
  async consume(
    embed: (chunk: number) => Promise<void>,
    missing: () => Promise<number[]>,
    count: number,
  ): Promise<void> {
    const lock = 1000 * this.#setup.lock;
    /** The running chunks, with their jobs if they have one. */
    const running = new Map<number, Held | null>();
    let failure: { error: unknown } | null = null;
    /** When the queue last gave a chunk, or one that it gave was done. */
    let given = performance.now();

    const run = async (chunk: number, held: Held | null) => {
      running.set(chunk, held);
      try {
        await embed(chunk);
      } catch (error) {
        failure = { error };
      }
      const job = running.get(chunk); // may have been taken meanwhile
      if (job) {
        given = performance.now();
        await this.#complete(job);
      }
      running.delete(chunk);
      this.#wake();
    };
    const renew = async () => {
      const held = [...running.values()].filter((each) => each !== null);
      if (held.length === 0) return;
      const [ids, tokens] = [held.map(({ job }) => job.id!), held.map(({ token }) => token)];
      const extend = async (connection: Connection) => (await connection.worker()).extendJobLocks(ids, tokens, lock);
      await this.#attempt(extend).catch(() => {}); // tried again later
    };
    const renewal = setInterval(renew, lock / 3);
    try {
      while (!this.#isClosed) {
        if (failure) throw (failure as { error: unknown }).error;
        const chunks = await missing();
        if (chunks.length === 0) return;
        if (running.size < count) {
          let next = await this.#take();
          if (!next) {
            await this.add(chunks);
            next = await this.#take();
          }
          if (next) {
            const { chunk } = next.job.data;
            given = performance.now();
            if (running.has(chunk))
              running.set(chunk, next); // its lock has expired
            else void run(chunk, next);
            continue;
          }
          const rest = chunks.filter((chunk) => !running.has(chunk));
          if (rest.length > 0 && performance.now() - given >= lock) {
            void run(rest[Math.floor(Math.random() * rest.length)]!, null);
            continue;
          }
        }
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, 1000 * INTERVAL);
          this.#wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    } finally {
      clearInterval(renewal);
    }
  }

  /** Takes a job, if there is one. */
  async #take(): Promise<Held | null> {
    const token = randomUUID();
    return this.#ask(async (connection) => {
      const worker = await connection.worker();
      const job = (await worker.getNextJob(token, { block: false })) as Job | undefined;
      return job ? { job, token, connection } : null;
    });
  }

  /** Ends a job. If that fails, its lock expires, and whoever gets it next finds that the chunk is done. */
  async #complete({ job, token, connection }: Held): Promise<void> {
    if (connection !== this.#connection) return;
    await this.#attempt(() => job.moveToCompleted(null, token, false)).catch(() => {});
  }

  /**
   * Sends a request, repeatedly if necessary.
   *
   * @throws HeedError NETWORK if the server refuses connections or gives no answer within the timeout
   */
  async #ask<T>(request: (connection: Connection) => Promise<T>): Promise<T> {
    const deadline = performance.now() + 1000 * this.#timeout;
    const patience = performance.now() + (this.#wasOpen ? 1000 * REFUSING : 0);
    let problem = NO_ANSWER;
    for (;;) {
      try {
        const answer = await this.#attempt(request, deadline - performance.now());
        this.#wasOpen = true;
        return answer;
      } catch (cause) {
        const { message, code } = cause as NodeJS.ErrnoException;
        if (message !== NO_ANSWER) problem = message || code || problem;
        if (isRefusal(cause as Error) && performance.now() >= patience) {
          const expected = `a user, a password and a database that the server at ${this.#address} accepts`;
          throw invalid('queue', expected, `the error '${problem}'`, 'NETWORK', { cause });
        }
        const left = deadline - performance.now();
        if (left <= 0 || this.#isClosed) {
          const hint = 'Finished parts are kept: run it again, or with `queueTimeout` Infinity to wait for the server';
          const got = `none within ${this.#timeout} s (${problem})`;
          throw invalid('queue', `a server at ${this.#address}`, got, 'NETWORK', { hint });
        }
        await new Promise((resolve) => setTimeout(resolve, Math.min(1000 * PAUSE, left)));
      }
    }
  }

  /** Sends a request once, for at most `limit` milliseconds. If it fails, the next one uses a new connection. */
  async #attempt<T>(request: (connection: Connection) => Promise<T>, limit = Number.POSITIVE_INFINITY): Promise<T> {
    if (this.#isClosed) throw new Error('the queue is closed');
    this.#connection ??= new Connection(this.#setup);
    const connection = this.#connection;
    try {
      // At least two attempts within the timeout.
      const most = 1000 * Math.min(REQUEST, Math.max(1, this.#timeout / 2));
      return await connection.send(request, Math.min(limit, most));
    } catch (error) {
      if (isAnswer(error)) throw error;
      connection.destroy(error as Error);
      if (this.#connection === connection) this.#connection = null;
      throw error;
    }
  }

  /** Closes the connection, waiting at most 3 s for the server. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wake();
    await this.#connection?.close(3000);
  }

  /** Deletes all data of this plan on the server. */
  async delete(): Promise<void> {
    await this.#ask(({ queue }) => queue.obliterate({ force: true }));
  }
}
