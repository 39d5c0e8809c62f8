/** Reads files and folders of any size. Failures to read are reported as a HeedError. */
import * as fs from 'node:fs';
import { HeedError } from '../index.js';

const BUFFER_BYTES = 1 << 20;

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

/**
 * Reads at most `bytes` bytes of a file from `first` on. Pieces have an even number of bytes, except for the last one.
 * Each is valid until the next one is read.
 */
export function* pieces(path: string, first = 0, bytes = Number.MAX_SAFE_INTEGER): Generator<Uint8Array> {
  const file = reading(path, () => fs.openSync(path, 'r'));
  try {
    const buffer = new Uint8Array(BUFFER_BYTES);
    for (let done = 0; done < bytes; ) {
      const length = Math.min(buffer.length, bytes - done);
      let count = 0;
      const read = () => fs.readSync(file, buffer, count, length - count, first + done + count);
      for (let more = 1; more > 0 && count < length; count += more) more = reading(path, read);
      if (count === 0) return;
      yield buffer.subarray(0, count);
      done += count;
    }
  } finally {
    fs.closeSync(file);
  }
}

/** Maximum length of the header of a .safetensors file. */
const MAX_HEADER_BYTES = 1 << 27;

/** The header of a .safetensors file, and its end. @throws an error if the file does not begin with one */
export function safetensorsHeader(path: string) {
  const length = Number(Buffer.from(readRange(path, 0, 8)).readBigUInt64LE());
  const json = Buffer.from(readRange(path, 8, Math.min(length, MAX_HEADER_BYTES))).toString();
  type Entry = { data_offsets?: [number, number] | undefined; heed_index?: string | undefined };
  return { header: JSON.parse(json) as Record<string, Entry>, end: 8 + length };
}

/** Reads a range of a file. Returns fewer bytes if the file ends within the range. */
export const readRange = (path: string, first: number, bytes: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(Buffer.concat(Array.from(pieces(path, first, bytes), (piece) => piece.slice())));
