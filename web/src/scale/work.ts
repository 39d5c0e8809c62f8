/**
 * Works on a plan: embeds chunks that have no part, either a shard's or those from a queue. Any number of processes may
 * do so concurrently.
 */
import * as fs from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { abortable } from '../base/event-loop.js';
import { count, integer, optional, readOptions, type Schema, size } from '../base/options.js';
import { invalid, removeOwn, requireServers, requireWritable, writeWhole } from '../node/index.js';
import type { ChunkDone } from './chunk.js';
import { VectorTable } from './database.js';
import { requireSameSizes } from './lines.js';
import { requireSameFiles, withModel } from './machine.js';
import {
  failureName,
  findParts,
  isFailure,
  type Manifest,
  partNames,
  readFailure,
  readManifest,
  requireOwn,
  rowsOf,
} from './manifest.js';
import { type ServerOptions, seconds, serverSchema, string } from './plan-options.js';
import { ChunkQueue } from './queue.js';
import { ChunkError, EmbeddingThread, type ThreadData } from './thread.js';

export interface WorkOptions extends ServerOptions {
  /** Path of a copy of the plan's model, with identical files. Default: the path in the plan. */
  model?: string | undefined;
  /** Embeds only the chunks with chunk index % `count` = `index`. Default: all chunks. */
  shard?: { index: number; count: number } | undefined;
  /**
   * Seconds after which the queue hands the chunk of a crashed process to another one, and after which a process that
   * the queue gives no chunk embeds missing ones by itself. Default 30.
   */
  lock?: number | undefined;
  /**
   * Number of threads. Each loads a model of its own and embeds one chunk at a time. Default 'auto': one per CPU core.
   */
  workers?: number | 'auto' | undefined;
}

/** What `workEmbedding` has done. */
export interface WorkResult {
  /** Number of parts that this call has written. */
  parts: number;
  /** Number of rows in these parts. */
  rows: number;
  /** Number of these rows without a vector. */
  errors: number;
  /** Chunks that failed, in this or another process, because the corpus file cannot be embedded as it is. */
  failed: { chunk: number; error: string }[];
}

const shardSchema = { index: count, count: size } satisfies Schema<NonNullable<WorkOptions['shard']>>;

const schema = {
  ...serverSchema,
  model: string,
  lock: seconds(1),
  shard: optional((value, name) => {
    const shard = readOptions(name, shardSchema, value);
    if (shard.index < shard.count) return shard;
    throw invalid(name, '{ index, count } with 0 <= index < count', JSON.stringify(shard));
  }, undefined),
  workers: optional(
    (value, name) => (value === 'auto' ? value : integer(value, name, 1, 256, "'auto' or ")),
    'auto' as const,
  ),
} satisfies Schema<WorkOptions>;

/**
 * Embeds chunks of a plan until none is left for this process. With a queue, it also waits for the chunks of other
 * processes and takes over those of crashed processes.
 *
 * @example
 * const { parts, failed } = await workEmbedding('vectors', { workers: 4 });
 * @throws HeedError UNSUPPORTED or INVALID_FILE if the machine, heed or the files do not match the plan; NETWORK if a
 *   server cannot be reached; the signal's reason
 */
export async function workEmbedding(folder: string, given?: WorkOptions): Promise<WorkResult> {
  const options = readOptions('workEmbedding', schema, given);
  const { shard = { index: 0, count: 1 }, queue, signal, model, workers, onProgress } = options;
  if (options.shard && queue) throw invalid('shard', 'only one of shard and queue', 'both');
  requireServers(options, (name) => `workEmbedding.${name}`);
  const manifest = readManifest(folder);
  signal?.throwIfAborted();
  requireSameFiles(withModel(manifest, model));
  requireSameSizes(manifest);
  requireWritable(folder);

  const share = manifest.chunks.map((_, chunk) => chunk).filter((chunk) => chunk % shard.count === shard.index);
  requireOwn(
    folder,
    share.map((chunk) => [failureName(chunk), isFailure]),
  );
  for (const chunk of share) removeOwn(join(folder, failureName(chunk)), isFailure); // try failed chunks again
  const { to, table: name } = options;
  const table = to === undefined ? null : await VectorTable.open(options, manifest);
  const result: WorkResult = { parts: 0, rows: 0, errors: 0, failed: [] };
  const crew = new Crew({ folder, model, database: table && { to, table: name } }, manifest);
  let chunkQueue = null as ChunkQueue | null;

  /** The chunks of this process's shard that are neither done nor failed. */
  async function missing(): Promise<number[]> {
    const { done, failed } = findParts(folder, manifest);
    const inTable = await table?.done();
    return share.filter((chunk) => !failed.has(chunk) && !(done.has(chunk) && inTable?.has(chunk) !== false));
  }

  async function embed(chunk: number): Promise<void> {
    try {
      const done = await crew.embed(chunk);
      result.parts++;
      result.rows += done.rows;
      result.errors += done.errors;
    } catch (error) {
      if (!(error instanceof ChunkError)) throw error;
      const text = `${JSON.stringify({ chunk, error: error.message })}\n`;
      writeWhole(join(folder, failureName(chunk)), text, isFailure);
    }
  }

  /** Embeds a chunk unless another process has done so. */
  async function embedMissing(chunk: number): Promise<void> {
    const isDone =
      fs.existsSync(join(folder, partNames(manifest, chunk).at(-1)!)) && (await table?.has(chunk)) !== false;
    if (!isDone) await embed(chunk);
  }

  async function work(): Promise<void> {
    const chunks = await missing();
    if (chunks.length === 0) return;
    let done = 0;
    const total = queue === undefined ? rowsOf(manifest, chunks) : null;
    crew.onRows = (rows) => {
      done += rows;
      onProgress?.({ done, total });
    };
    const threads = Math.min(workers === 'auto' ? availableParallelism() : workers, chunks.length);
    if (queue === undefined) {
      await crew.start(threads);
      let next = 0;
      const loop = async () => {
        while (next < chunks.length) await embedMissing(chunks[next++]!);
      };
      await Promise.all(Array.from({ length: threads }, loop));
    } else {
      chunkQueue = await ChunkQueue.open(options, manifest);
      await crew.start(threads);
      await chunkQueue.consume(embedMissing, missing, threads);
    }
  }

  try {
    await abortable(table ? Promise.race([work(), table.watch()]) : work(), signal);
  } finally {
    await crew.close();
    await chunkQueue?.close();
    await table?.close();
  }
  const { failed } = findParts(folder, manifest);
  result.failed = share.filter((chunk) => failed.has(chunk)).map((chunk) => readFailure(folder, chunk));
  return result;
}

/** The embedding threads of a process. */
class Crew {
  readonly #threads: EmbeddingThread[] = [];
  readonly #idle: EmbeddingThread[] = [];
  /** Called with the number of rows of each batch. */
  onRows = (_rows: number): void => {};

  constructor(
    private readonly data: Omit<ThreadData, 'suffix'>,
    private readonly manifest: Manifest,
  ) {}

  async start(count: number): Promise<void> {
    for (let n = 0; n < count; n++) this.#threads.push(new EmbeddingThread(this.data, this.manifest));
    await Promise.all(this.#threads.map((thread) => thread.ready()));
    this.#idle.push(...this.#threads);
  }

  /** Embeds a chunk in an idle thread. The caller embeds no more chunks at the same time than there are threads. */
  async embed(chunk: number): Promise<ChunkDone> {
    const thread = this.#idle.pop()!;
    try {
      return await thread.embed(chunk, this.onRows);
    } finally {
      this.#idle.push(thread);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }
}
