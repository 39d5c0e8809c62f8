/** Writes results: JSON lines to standard output or a file, or vectors to a .npy file. Incomplete files can be continued. */

import { once } from 'node:events';
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { NPY_HEADER_BYTES, npyHeader, npyShape, npyType } from '../scale/npy.js';
import { invalid, invalidFile } from './error.js';

/** A vector in one of its forms; int8 ones have a scale. */
export interface OutputVector {
  values: Float32Array | Int8Array | Uint8Array;
  scale?: number;
}

export interface Output {
  /** The number of records that an earlier run has written. */
  readonly done: number;
  /** Writes one record and, for embeddings, its vector. */
  write(record: object, vector?: OutputVector): Promise<void>;
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
function numbersOf({ values }: OutputVector): number[] {
  return Array.from(values, (v) => (values.BYTES_PER_ELEMENT === 4 ? Number(v.toPrecision(7)) : v));
}

function line(record: object, vector?: OutputVector): string {
  const full = vector ? { ...record, scale: vector.scale, embedding: numbersOf(vector) } : record;
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
  let bytes = 4;
  let type = '<f4';
  let rows = 0;
  if (size >= NPY_HEADER_BYTES) {
    const header = new Uint8Array(NPY_HEADER_BYTES);
    readSync(file, header, 0, NPY_HEADER_BYTES, 0);
    width = npyShape(header)?.[1] ?? 0;
    if (width === 0) throw invalidFile(path, 'a .npy file of vectors', 'a file that heed did not write');
    type = npyType(header);
    bytes = Number(type.at(-1));
    rows = Math.floor((size - NPY_HEADER_BYTES) / (bytes * width));
  }
  const done = rows;
  return {
    done,
    async write(_, vector) {
      const { values } = vector!; // openOutput ensures it
      const own = values instanceof Float32Array ? '<f4' : values instanceof Int8Array ? '|i1' : '|u1';
      if (width === 0) {
        [width, type, bytes] = [values.length, own, values.BYTES_PER_ELEMENT];
        writeSync(file, npyHeader(0, width, type), 0, NPY_HEADER_BYTES, 0);
      }
      const expected = `vectors of ${width} entries of type ${type}, as in the file's other rows`;
      if (values.length !== width || own !== type)
        throw invalid(path, expected, `${values.length} of ${own}`, 'SHAPE_MISMATCH');
      writeSync(file, values, 0, bytes * width, NPY_HEADER_BYTES + rows * bytes * width);
      rows++;
    },
    close() {
      if (width > 0) {
        ftruncateSync(file, NPY_HEADER_BYTES + rows * bytes * width);
        writeSync(file, npyHeader(rows, width, type), 0, NPY_HEADER_BYTES, 0);
      }
      closeSync(file);
    },
  };
}
