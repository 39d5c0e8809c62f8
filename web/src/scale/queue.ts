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
import type { HeedError } from '../index.js';
import { invalid } from '../node/index.js';
import { Connection, isAnswer, type Job, type Setup } from './connection.js';
import { planId } from './machine.js';
import type { Manifest } from './manifest.js';
import type { Signal } from './plan-options.js';
import { isRefusal, NO_ANSWER, requirePeer, serverOf } from './server.js';

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

export interface QueueOptions {
  /** Seconds to wait for the server while it cannot be reached. Default 20. */
  timeout?: number | undefined;
  /** Seconds after which the chunk of a crashed process is handed out again. Needed by `consume`. */
  lock?: number | undefined;
  signal?: Signal | undefined;
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
  readonly #lock: number;
  readonly #setup: Setup;
  #connection: Connection | null = null;
  #wasOpen = false;
  #isClosed = false;
  #wake = () => {};

  private constructor(url: string, manifest: Manifest, { timeout = 20, lock = 30 }: QueueOptions) {
    const { kind, address } = serverOf('--queue', url, [
      'redis://host:port',
      'rediss://host:port',
      'postgres://host:port/database',
    ]);
    const driver = kind === 'redis' ? 'ioredis' : 'pg';
    const bull = requirePeer<typeof import('bullmq')>('--queue', 'bullmq', `bullmq ${driver}`);
    const peer = requirePeer<typeof import('pg')>('--queue', driver, `bullmq ${driver}`);
    this.#address = address;
    this.#timeout = timeout;
    this.#lock = lock;
    this.#setup = { name: `heed-${planId(manifest)}`, url, bull, pg: kind === 'redis' ? null : peer, lock };
  }

  /**
   * Connects.
   *
   * @throws HeedError NETWORK if the server refuses the connection or cannot be reached within `timeout` seconds;
   *   UNSUPPORTED if a package is missing; the signal's reason
   */
  static async open(url: string, manifest: Manifest, options: QueueOptions = {}): Promise<ChunkQueue> {
    const queue = new ChunkQueue(url, manifest, options);
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
    const lock = 1000 * this.#lock;
    const running = new Set<number>();
    /** The jobs of running chunks, by chunk. */
    const held = new Map<number, Held>();
    let failure: { error: unknown } | null = null;
    /** When the queue last gave a chunk, or one that it gave was done. */
    let given = performance.now();

    const run = async (chunk: number) => {
      running.add(chunk);
      try {
        await embed(chunk);
      } catch (error) {
        failure = { error };
      }
      const job = held.get(chunk);
      if (job) {
        given = performance.now();
        await this.#complete(job);
      }
      held.delete(chunk);
      running.delete(chunk);
      this.#wake();
    };
    const renew = async () => {
      if (held.size === 0) return;
      const [ids, tokens] = [
        [...held.values()].map(({ job }) => job.id!),
        [...held.values()].map(({ token }) => token),
      ];
      await this.#attempt(async (connection) => (await connection.worker()).extendJobLocks(ids, tokens, lock)).catch(
        () => {},
      ); // tried again later
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
            held.set(chunk, next); // the chunk may be running already, if its lock has expired
            if (!running.has(chunk)) void run(chunk);
            continue;
          }
          const rest = chunks.filter((chunk) => !running.has(chunk));
          if (rest.length > 0 && performance.now() - given >= lock) {
            void run(rest[Math.floor(Math.random() * rest.length)]!);
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
        if (isRefusal(cause as Error) && performance.now() >= patience) throw this.#refused(problem, cause);
        const left = deadline - performance.now();
        if (left <= 0 || this.#isClosed) throw this.#away(problem);
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

  #refused(problem: string, cause: unknown): HeedError {
    const expected = `a user, a password and a database that the server at ${this.#address} accepts`;
    return invalid('--queue', expected, `the error '${problem}'`, 'NETWORK', { cause });
  }

  #away(problem: string): HeedError {
    const hint = 'Finished parts are kept: run the same command again, or with --retry to wait for the server';
    const got = `none within ${this.#timeout} s (${problem}). ${hint}`;
    return invalid('--queue', `a server at ${this.#address}`, got, 'NETWORK');
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
