/**
 * The interface through which a model's files are read from any source, and functions shared by its implementations.
 */
import { HeedError, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import { requireInside } from './paths.js';

/** An open file: its name in messages, its size in bytes, and its bytes in order. */
export interface OpenFile {
  name: string;
  /** null if the source does not report it reliably. */
  size: number | null;
  /** For progress reports: the bytes that are read, if they are not `size`. May be corrected while the file is read. */
  expectedSize?: number | null | undefined;
  /** Whether the file has to be read to its end, because a digest or fingerprint covers all of it. */
  isReadWhole?: boolean | undefined;
  /** `ETag` of a file from the network, or else `Last-Modified`. */
  tag?: string | null | undefined;
  /**
   * The file's bytes. By calling `next(true)`, a consumer releases the previous chunk, whose memory may then be reused.
   */
  chunks(): AsyncIterable<Uint8Array>;
  /** Ends the transfer of a file whose chunks are not read. */
  close?(): Promise<void>;
  /**
   * For weights that are read by ranges: skips the bytes of a tensor, whose rows are passed to `write` later, and all
   * bytes from `end` on. Call it between reading the header and reading the tensors. Offsets count from the end of the
   * header.
   */
  leaveOut?(
    entry: { begin: number; end: number },
    rows: number,
    write: (bytes: Uint8Array, firstRow: number) => void,
    end: number,
  ): void;
}

export function expectedSize(file: OpenFile): number | null {
  return file.expectedSize ?? file.size;
}

/**
 * Why no file was opened. 'missing': the source does not have it. 'unreachable': the source cannot be reached, so it is
 * unknown whether the file exists. 'unchanged': the source's file equals the caller's copy.
 */
export interface NoFile {
  status: 'missing' | 'unreachable' | 'unchanged';
  /** The error to throw if the file is required. */
  error: HeedError;
}

export type Found = OpenFile | NoFile;

/**
 * @internal Fetches a URL with headers. Excluded from the declarations, because users may compile without the DOM's
 * types.
 */
export type Request = (
  url: URL,
  signal: SignalLike | undefined,
  headers?: Record<string, string>,
  cache?: 'no-cache',
) => Promise<Response>;

/** Files by their paths below the model's folder. Some implementations wrap another source. */
export interface Source {
  /** Opens a file. `tag`: tag of the caller's copy, without which the status is never 'unchanged'. */
  open(path: string, signal?: SignalLike, tag?: string): Promise<Found>;
  /** @internal The URL of a file, if the source reads URLs. */
  urlOf?(path: string): URL | null;
  /** @internal Fetches a URL of the source. */
  request?: Request | undefined;
  /** The names of the files directly in a folder, if the source can list them without a request; else null. */
  list?(path: string): Promise<readonly string[] | null>;
  /** Reports that a file with this tag is read by ranges, without `open`. */
  note?(path: string, tag: string | null): void;
  /**
   * The first bytes of a file and its tag, if they have been read already. Ends the transfer of the rest, because
   * browsers let other requests for the file wait for it.
   */
  startOf?(path: string): Promise<{ bytes: Uint8Array; tag: string | null } | null>;
  /**
   * Call this when a load has succeeded, before returning its result. Throws if the files that were read belong to
   * different revisions.
   */
  complete?(signal?: SignalLike): Promise<void>;
  /** Call this when a load has failed. Returns true if the load may succeed with the option `refresh`. */
  failed?(error: unknown): Promise<boolean>;
}

export function missing(argument: string, expected = 'a file', got = 'none', hint?: string): NoFile {
  return { status: 'missing', error: invalid(argument, expected, got, 'NOT_FOUND', { hint }) };
}

export function isFile(found: Found): found is OpenFile {
  return 'chunks' in found;
}

export interface OpenOptions {
  required?: boolean | undefined;
  signal?: SignalLike | undefined;
}

export interface ModelFolder extends Omit<Source, 'open'> {
  /**
   * Opens a file. Resolves to null if the folder has no such file and it is not `required`. Throws if the folder cannot
   * be reached.
   */
  open(path: string, options: OpenOptions & { required: true }): Promise<OpenFile>;
  open(path: string, options: OpenOptions): Promise<OpenFile | null>;
}

/** Makes a folder of a source. It opens and lists only paths inside the source. `ends`: signal for calls without one. */
export function folderOf(source: Source, ends?: SignalLike): ModelFolder {
  async function open(path: string, { required = false, signal = ends }: OpenOptions): Promise<OpenFile | null> {
    signal?.throwIfAborted();
    const found = await source.open(requireInside(path), signal);
    if (isFile(found)) return found;
    if (required || found.status === 'unreachable') throw found.error;
    return null;
  }
  const { list } = source;
  return {
    ...source,
    open: open as ModelFolder['open'],
    ...(list && { list: async (path: string) => list(requireInside(path)) }),
  };
}

/** Reads all bytes of an open file. `onBytes` is called with each chunk's length. */
export async function readAll(file: OpenFile, onBytes?: (count: number) => void): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of file.chunks()) {
    chunks.push(chunk);
    onBytes?.(chunk.length);
  }
  return concatenate(Uint8Array, chunks);
}

export function parseJson(bytes: Uint8Array, file: string): unknown {
  let text = '';
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return JSON.parse(text);
  } catch (cause) {
    const other = otherContent(bytes);
    if (other) throw invalid(file, 'JSON', other.what, 'INVALID_FILE', { hint: other.hint });
    // Python's json module writes numbers that JSON does not have.
    const odd = [...text.matchAll(/"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g)].find(([token]) => token[0] !== '"');
    if (odd) {
      const lines = text.slice(0, odd.index).split('\n');
      const place = `line ${lines.length}, column ${lines.at(-1)!.length + 1}`;
      throw invalid(file, 'JSON, which has no such numbers', `${odd[0]} in ${place}`, 'INVALID_FILE', { cause });
    }
    throw invalid(file, 'JSON', `${bytes.length} bytes that cannot be parsed`, 'INVALID_FILE', { cause });
  }
}

/** Content that servers and clones have in the place of a file, recognized by its first 8 bytes; null: none of these. */
export function otherContent(start: Uint8Array): { what: string; hint: string } | null {
  const text = String.fromCharCode(...start.subarray(0, 8));
  if (text === 'version ') return { what: 'a Git LFS pointer', hint: '`git lfs pull` in the clone fetches the file' };
  if (/^<[!a-z?]/i.test(text)) return { what: 'an HTML page', hint: 'Check the address' };
  return null;
}

/** Concatenates the parts. A single part is returned without copying. */
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

/** @internal Reads the chunks of a file that may have been deleted or changed since it was opened. */
export async function* streamChunks(name: string, stream: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  try {
    yield* fromStream(stream);
  } catch (cause) {
    throw unreadable(name, cause);
  }
}

/** @internal Iterates over a stream. Safari's ReadableStream is not async iterable. */
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

/** The error for a file that exists but cannot be read. */
export function unreadable(name: string, cause: unknown): HeedError {
  return new HeedError('NOT_FOUND', `${name}: cannot be read (${(cause as Error).message})`, { cause });
}

/** Ends the transfer of a file that will not be read. */
export async function discard(file: OpenFile): Promise<void> {
  await file.close?.();
}
