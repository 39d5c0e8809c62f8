/** Reads files and folders of any size. Failures to read are reported as a HeedError. */
import * as fs from 'node:fs';
import { HeedError } from '../index.js';

const BUFFER_BYTES = 1 << 20;

/** The error for a file or folder that cannot be read. */
export const unreadable = (path: string, cause: unknown) =>
  new HeedError('NOT_FOUND', `${path}: cannot be read (${(cause as Error).message})`, { cause });

function reading<T>(path: string, body: () => T): T {
  try {
    return body();
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/** The status of the file or folder at a path; undefined if there is none. */
export function statusOf(path: string): fs.Stats | undefined {
  try {
    return fs.statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (['ENOTDIR', 'ENAMETOOLONG'].includes(String((error as NodeJS.ErrnoException).code))) return undefined;
    throw unreadable(path, error);
  }
}

/** The names in a folder; if `recursive`, also in its subfolders. */
export const namesIn = (folder: string, { recursive = false } = {}): string[] =>
  reading(folder, () => fs.readdirSync(folder, { recursive, encoding: 'utf8' }));

/** Reads at most `bytes` bytes of a file from `first` on. Each piece is valid until the next one is read. */
export function* pieces(path: string, first = 0, bytes = Number.MAX_SAFE_INTEGER): Generator<Uint8Array> {
  const file = reading(path, () => fs.openSync(path, 'r'));
  try {
    const buffer = new Uint8Array(BUFFER_BYTES);
    for (let done = 0; done < bytes; ) {
      const length = Math.min(buffer.length, bytes - done);
      const count = reading(path, () => fs.readSync(file, buffer, 0, length, first + done));
      if (count === 0) return;
      yield buffer.subarray(0, count);
      done += count;
    }
  } finally {
    fs.closeSync(file);
  }
}

/** Reads a range of a file. Returns fewer bytes if the file ends within the range. */
export const readRange = (path: string, first: number, bytes: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(Buffer.concat(Array.from(pieces(path, first, bytes), (piece) => piece.slice())));
