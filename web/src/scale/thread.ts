/**
 * A worker thread that embeds chunks, and its protocol. The main thread stays responsive, so that it can renew locks
 * and handle signals.
 */
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { removeOwn, uniqueSuffix } from '../base/own-files.js';
import { HeedError, type HeedErrorCode } from '../index.js';
import type { ChunkDone } from './chunk.js';
import { type Manifest, partNames } from './manifest.js';
import type { ServerOptions } from './plan-options.js';

/** The data with which a thread is started. */
export interface ThreadData {
  folder: string;
  suffix: string;
  /** Path of the model, if it differs from the plan's. */
  model: string | undefined;
  /** The database into which rows are inserted, too. */
  database: Pick<ServerOptions, 'to' | 'table'> | null;
}

export type Answer =
  | { type: 'ready' }
  | { type: 'progress'; rows: number }
  | { type: 'done'; done: ChunkDone }
  /** `fatal`: the thread cannot continue, whatever the chunk. */
  | { type: 'failed'; code: HeedErrorCode; message: string; fatal: boolean };

/** The error of a chunk that cannot be embedded although others may be. */
export class ChunkError extends Error {}

export class EmbeddingThread {
  readonly #worker: Worker;
  readonly #data: ThreadData;
  /** Settles the pending call. */
  #settle: { resolve(done: ChunkDone | null): void; reject(error: unknown): void } | null = null;
  /** The error with which the thread ended, or null while it runs. */
  #ended: HeedError | null = null;
  #onProgress: (rows: number) => void = () => {};
  #chunk = -1;

  constructor(
    data: Omit<ThreadData, 'suffix'>,
    private readonly manifest: Manifest,
  ) {
    this.#data = { ...data, suffix: uniqueSuffix() };
    this.#worker = new Worker(new URL('./embed-worker.js', import.meta.url), { workerData: this.#data });
    this.#worker.on('message', (answer: Answer) => this.#receive(answer));
    const failed = (got: string) => {
      this.#ended ??= new HeedError('WORKER_FAILED', `worker thread: ${got}`);
      this.#settle?.reject(this.#ended);
    };
    this.#worker.on('error', (error) => failed(`it failed (${error.message})`));
    this.#worker.on('exit', (code) => failed(`it ended (exit code ${code})`));
  }

  /** Resolves when the model is loaded. */
  async ready(): Promise<void> {
    await this.#answer();
  }

  /** @throws ChunkError if only this chunk fails; otherwise HeedError */
  async embed(chunk: number, onProgress: (rows: number) => void): Promise<ChunkDone> {
    this.#onProgress = onProgress;
    this.#chunk = chunk;
    const answer = this.#answer();
    this.#worker.postMessage(chunk);
    return (await answer)!;
  }

  /** Terminates the thread and deletes the files that it was writing. */
  async close(): Promise<void> {
    await this.#worker.terminate();
    if (this.#chunk < 0) return;
    for (const name of partNames(this.manifest, this.#chunk))
      removeOwn(join(this.#data.folder, `${name}.tmp-${this.#data.suffix}`), () => true); // this run's suffix
  }

  #answer(): Promise<ChunkDone | null> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      this.#settle = { resolve, reject };
    });
  }

  #receive(answer: Answer): void {
    if (answer.type === 'progress') this.#onProgress(answer.rows);
    else if (answer.type === 'ready') this.#settle?.resolve(null);
    else if (answer.type === 'done') this.#settle?.resolve(answer.done);
    else {
      const { message, code, fatal } = answer;
      this.#settle?.reject(fatal ? new HeedError(code, message) : new ChunkError(message));
    }
  }
}
