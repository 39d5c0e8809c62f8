/** What every source of a model's files answers with, and the model's folder made from it. */
import { HeedError } from '../error.js';
import type { SignalLike } from '../platform.js';

/** An open file: its name in messages, its size, its bytes in order. */
export interface OpenFile {
  name: string;
  /** null where the source does not tell, or not for certain. */
  size: number | null;
  /** What progress counts on where `size` is not certain. */
  expectedSize?: number | null;
  chunks(): AsyncIterable<Uint8Array>;
}

export function expectedSize(file: OpenFile): number | null {
  return file.expectedSize ?? file.size;
}

/** Why there is no file: the source has none of that name ('missing'), or could not be asked ('unreachable'), which says nothing about the file. */
export interface NoFile {
  status: 'missing' | 'unreachable';
  /** What to throw where the file is required. */
  error: HeedError;
}

export type Found = OpenFile | NoFile;

export function missing(message: string): NoFile {
  return { status: 'missing', error: new HeedError('NOT_FOUND', message) };
}

export function isFile(found: Found): found is OpenFile {
  return 'chunks' in found;
}

export interface OpenOptions {
  required?: boolean;
  signal?: SignalLike | undefined;
}

export interface ModelFolder {
  /** How messages name it. */
  label: string;
  /** null where the folder has no such file, unless it is `required`. Throws where the folder cannot be reached. */
  open(path: string, options: OpenOptions & { required: true }): Promise<OpenFile>;
  open(path: string, options: OpenOptions): Promise<OpenFile | null>;
  /** To be called where the load that opened it failed. */
  failed?(error: unknown): Promise<void>;
}

export function folderOf(
  label: string,
  find: (path: string, signal?: SignalLike) => Promise<Found>,
  failed?: (error: unknown) => Promise<void>,
): ModelFolder {
  async function open(path: string, { required = false, signal }: OpenOptions): Promise<OpenFile | null> {
    signal?.throwIfAborted();
    const found = await find(path, signal);
    if (isFile(found)) return found;
    if (required || found.status === 'unreachable') throw found.error;
    return null;
  }
  return { label, open: open as ModelFolder['open'], ...(failed && { failed }) };
}

/** All bytes of an open file; `onBytes` is called with each chunk's length. */
export async function readAll(file: OpenFile, onBytes?: (count: number) => void): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of file.chunks()) {
    chunks.push(chunk);
    onBytes?.(chunk.length);
  }
  return joined(chunks);
}

export function joined(chunks: Uint8Array[]): Uint8Array<ArrayBuffer> {
  if (chunks.length === 1) return chunks[0] as Uint8Array<ArrayBuffer>;
  const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/** A stream of a file that is there; it may have gone or changed since it was opened. */
export async function* streamChunks(name: string, stream: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  try {
    yield* fromStream(stream);
  } catch (cause) {
    throw unreadable(name, cause);
  }
}

/** @internal Safari's ReadableStream is no async iterable. */
export async function* fromStream(stream: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  const reader = stream.getReader();
  let done = false;
  try {
    for (;;) {
      const next = await reader.read();
      if (next.done) {
        done = true;
        return;
      }
      yield next.value;
    }
  } finally {
    if (!done) await reader.cancel().catch(() => {});
  }
}

/** The error for a file that is there and cannot be read. */
export function unreadable(name: string, cause: unknown): HeedError {
  return new HeedError('NOT_FOUND', `${name}: cannot be read (${(cause as Error).message})`, { cause });
}
