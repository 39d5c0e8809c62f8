/** Writes results: JSON lines to standard output or a file, or vectors to a .npy file. Incomplete files can be continued. */

import { once } from 'node:events';
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { NPY_HEADER_BYTES, npyHeader, npyShape } from '../scale/npy.js';
import { invalid, invalidFile } from './error.js';

export interface Output {
  /** The number of records that an earlier run has written. */
  readonly done: number;
  /** Writes one record and, for embeddings, its vector. */
  write(record: object, vector?: Float32Array): Promise<void>;
  close(): void;
}

/** Opens `path`, or standard output. A .npy file can only have vectors (`kind`). */
export function openOutput(path: string | undefined, resume: boolean, kind: 'vectors' | 'records'): Output {
  if (path === undefined || path === '-') return standardOutput();
  if (kind === 'records' && path.endsWith('.npy'))
    throw invalid('--out', 'a .jsonl file for results that are not vectors', `'${path}'`);
  if (existsSync(path) && !resume)
    throw invalid('--out', 'a new file', `'${path}', which exists. Continue it with --resume`);
  return path.endsWith('.npy') ? npyFile(path) : jsonlFile(path);
}

function standardOutput(): Output {
  return {
    done: 0,
    async write(record, vector) {
      if (!process.stdout.write(line(record, vector))) await once(process.stdout, 'drain');
    },
    close() {},
  };
}

/** fp32 has about 7 significant digits; more would only make the file longer. */
function line(record: object, vector?: Float32Array): string {
  const full = vector ? { ...record, embedding: Array.from(vector, (v) => Number(v.toPrecision(7))) } : record;
  return `${JSON.stringify(full)}\n`;
}

function jsonlFile(path: string): Output {
  const file = openSync(path, existsSync(path) ? 'r+' : 'w+');
  // An incomplete last line is overwritten.
  const { lines, end } = completeLines(file);
  ftruncateSync(file, end);
  let at = end;
  return {
    done: lines,
    async write(record, vector) {
      at += writeSync(file, line(record, vector), at);
    },
    close: () => closeSync(file),
  };
}

function completeLines(file: number): { lines: number; end: number } {
  const buffer = new Uint8Array(1 << 16);
  let lines = 0;
  let end = 0;
  let at = 0;
  for (;;) {
    const count = readSync(file, buffer, 0, buffer.length, at);
    if (count === 0) return { lines, end };
    for (let i = 0; i < count; i++) {
      if (buffer[i] === 10) {
        lines++;
        end = at + i + 1;
      }
    }
    at += count;
  }
}

function npyFile(path: string): Output {
  const file = openSync(path, existsSync(path) ? 'r+' : 'w+');
  const size = fstatSync(file).size;
  let width = 0;
  let rows = 0;
  if (size >= NPY_HEADER_BYTES) {
    const header = new Uint8Array(NPY_HEADER_BYTES);
    readSync(file, header, 0, NPY_HEADER_BYTES, 0);
    width = npyShape(header)?.[1] ?? 0;
    if (width === 0) throw invalidFile(path, 'a .npy file of vectors', 'a file that heed did not write');
    rows = Math.floor((size - NPY_HEADER_BYTES) / (4 * width));
  }
  const done = rows;
  return {
    done,
    async write(_, row) {
      const vector = row!; // openOutput ensures it
      if (width === 0) {
        width = vector.length;
        writeSync(file, npyHeader(0, width), 0, NPY_HEADER_BYTES, 0);
      }
      const expected = `vectors of ${width} entries, as in the file's other rows`;
      if (vector.length !== width) throw invalid(path, expected, `${vector.length}`, 'SHAPE_MISMATCH');
      writeSync(file, vector, 0, 4 * width, NPY_HEADER_BYTES + rows * 4 * width);
      rows++;
    },
    close() {
      if (width > 0) {
        ftruncateSync(file, NPY_HEADER_BYTES + rows * 4 * width);
        writeSync(file, npyHeader(rows, width), 0, NPY_HEADER_BYTES, 0);
      }
      closeSync(file);
    },
  };
}
