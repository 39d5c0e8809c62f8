/** The interface through which a model's files are read, whatever they come from, and what all its implementations need. */
import { HeedError, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';

/** An open file: its name in messages, its size in bytes, and its bytes in order. */
export interface OpenFile {
  name: string;
  /** null if the source does not report it reliably. */
  size: number | null;
  /** An estimate for progress reports if `size` is null. */
  expectedSize?: number | null;
  /** Of a file from the network: its `ETag`, or else `Last-Modified`. */
  tag?: string | null;
  /** A consumer that calls `next(true)` is done with the chunk before, whose memory may then be used again: reading a large file otherwise touches as much new memory. */
  chunks(): AsyncIterable<Uint8Array>;
  /** Ends the transfer of a file whose chunks are not read. */
  close?(): Promise<void>;
  /**
   * Of weights that are read by ranges: leaves out the bytes of a tensor, whose rows `write` receives later. To be called after the header has been read, and before the tensors
   * are.
   */
  leaveOut?(
    entry: { begin: number; end: number },
    rows: number,
    write: (bytes: Uint8Array, firstRow: number) => void,
  ): void;
}

export function expectedSize(file: OpenFile): number | null {
  return file.expectedSize ?? file.size;
}

/** Why there is no file: the source has none of that name ('missing'), cannot be reached, which says nothing about the file ('unreachable'), or has the caller's copy ('unchanged'). */
export interface NoFile {
  status: 'missing' | 'unreachable' | 'unchanged';
  /** To be thrown if the file is required. */
  error: HeedError;
}

export type Found = OpenFile | NoFile;

/** @internal Fetches a URL with these headers. Not declared: users may compile without the types of the DOM. */
export type Request = (
  url: URL,
  signal: SignalLike | undefined,
  headers?: Record<string, string>,
  cache?: 'no-cache',
) => Promise<Response>;

/** Files by their paths below the model's folder. Implementations that add something wrap another source. */
export interface Source {
  /** `tag`: that of a copy which the caller has; only with it, 'unchanged' may be the answer. */
  open(path: string, signal?: SignalLike, tag?: string): Promise<Found>;
  /** @internal Where a file is, if the source reads URLs. */
  urlOf?(path: string): URL | null;
  /** @internal Fetches such a URL. */
  request?: Request;
  /** Says that a file with this tag is read by ranges, without `open`. */
  note?(path: string, tag: string | null): void;
  /** To be called when a load that used this source has succeeded, before its result is returned. Throws if the files that were read are of different revisions. */
  complete?(signal?: SignalLike): Promise<void>;
  /** To be called when a load that used this source has failed. True: the load may succeed with the option `refresh`. */
  failed?(error: unknown): Promise<boolean>;
}

export function missing(argument: string, expected = 'a file', got = 'none'): NoFile {
  return { status: 'missing', error: invalid(argument, expected, got, 'NOT_FOUND') };
}

export function isFile(found: Found): found is OpenFile {
  return 'chunks' in found;
}

export interface OpenOptions {
  required?: boolean;
  signal?: SignalLike | undefined;
}

export interface ModelFolder extends Omit<Source, 'open'> {
  /** Resolves to null if the folder has no such file, unless it is `required`. Throws if the folder cannot be reached. */
  open(path: string, options: OpenOptions & { required: true }): Promise<OpenFile>;
  open(path: string, options: OpenOptions): Promise<OpenFile | null>;
}

/** `ends`: the signal of calls that give none. */
export function folderOf(source: Source, ends?: SignalLike): ModelFolder {
  async function open(path: string, { required = false, signal = ends }: OpenOptions): Promise<OpenFile | null> {
    signal?.throwIfAborted();
    const found = await source.open(path, signal);
    if (isFile(found)) return found;
    if (required || found.status === 'unreachable') throw found.error;
    return null;
  }
  return { ...source, open: open as ModelFolder['open'] };
}

/** All bytes of an open file; `onBytes` is called with each chunk's length. */
export async function readAll(file: OpenFile, onBytes?: (count: number) => void): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of file.chunks()) {
    chunks.push(chunk);
    onBytes?.(chunk.length);
  }
  return concatenate(Uint8Array, chunks);
}

export function parseJson(bytes: Uint8Array, file: string): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw invalid(file, 'JSON', `${bytes.length} bytes that cannot be parsed`, 'INVALID_FILE', { cause });
  }
}

/** The parts one after the other; a single part is returned as it is. */
export function concatenate<A extends { length: number; set(part: A, at: number): void }>(
  Type: new (length: number) => A,
  parts: readonly A[],
): A {
  if (parts.length === 1) return parts[0]!;
  const whole = new Type(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** @internal The chunks of a file that was there when it was opened; it may have been deleted or changed since. */
export async function* streamChunks(name: string, stream: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  try {
    yield* fromStream(stream);
  } catch (cause) {
    throw unreadable(name, cause);
  }
}

/** @internal Safari's ReadableStream is not async iterable. */
export async function* fromStream<T>(stream: ReadableStream<T>): AsyncIterable<T> {
  const reader = stream.getReader();
  let done = false;
  try {
    for (;;) {
      const next = await reader.read();
      done = next.done;
      if (next.done) return;
      yield next.value;
    }
  } finally {
    if (!done) await reader.cancel().catch(() => {});
  }
}

/** The error for a file that exists and cannot be read. */
export function unreadable(name: string, cause: unknown): HeedError {
  return new HeedError('NOT_FOUND', `${name}: cannot be read (${(cause as Error).message})`, { cause });
}
