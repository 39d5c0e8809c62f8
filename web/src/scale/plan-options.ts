/** Options that several functions of `heed/corpus` share. */
import { describe, invalid } from '../base/error.js';
import { callback, legal, optional, type Reader, signal, text } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';

/** An AbortSignal. */
export type Signal = SignalLike;

/** The options of servers, of progress and of `signal`, which `workEmbedding` and `finishEmbedding` share. */
export interface ServerOptions {
  /**
   * URL of a server that distributes the chunks: redis://, rediss:// or postgres://. Needs the package bullmq, and
   * ioredis for Redis or pg for PostgreSQL. `finishEmbedding` adds missing chunks to it; if none is missing, it deletes
   * the queue.
   */
  queue?: string | undefined;
  /** Seconds to wait for the servers of `queue` and `to` while they do not answer. Default 20. */
  queueTimeout?: number | undefined;
  /**
   * URL of a PostgreSQL database with pgvector (postgres://), into which the rows are inserted, too. Needs the package
   * pg. `finishEmbedding` counts its rows.
   */
  to?: string | undefined;
  /** The database table for `to`. Default 'embeddings'. */
  table?: string | undefined;
  /**
   * Called with the number of rows that this call has done, and that it will do; null with a queue, whose other
   * processes do some of them.
   */
  onProgress?: ((progress: { done: number; total: number | null }) => void) | undefined;
  /** Stops at once. Finished parts are kept; chunks in progress are discarded. */
  signal?: Signal | undefined;
}

/** A path, a URL or a name. */
export const nonempty: Reader<string> = (value, name) => {
  if (text(value, name) !== '') return value as string;
  throw invalid(name, 'a string that is not empty', describe(value));
};

export const string = optional(nonempty, undefined);

/** Seconds. `least`: the minimum. */
export const seconds = (least: number): Reader<number | undefined> =>
  optional(
    legal<number>(`a number of at least ${least}`, (value) => typeof value === 'number' && value >= least),
    undefined,
  );

export const serverSchema = {
  ...{ queue: string, queueTimeout: seconds(0), to: string, table: string, signal },
  onProgress: callback<NonNullable<ServerOptions['onProgress']>>,
};
