/** Writes results: JSON lines to standard output or a file, or vectors to a .npy file. Incomplete files can be continued. */

import { once } from 'node:events';
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { extname } from 'node:path';
import { invalid, invalidFile } from '../node/error.js';
import { NPY_HEADER_BYTES, npyHeader, npyShape, npyType } from '../node/npy.js';

/** A vector in one of its forms; int8 ones have a scale. */
export interface OutputVector {
  values: Float32Array | Int8Array | Uint8Array;
  scale?: number;
}

export interface Output {
  /** The number of records that an earlier run has written. */
  readonly done: number;
  /** The number of records that are written, by this run and by earlier ones. */
  readonly count: number;
  /** Writes one record and, for embeddings, its vector. */
  write(record: object, vector?: OutputVector): Promise<void>;
  /** Makes the file whole. A file that this run made and that has no record is deleted. */
  close(): void;
}

/** Opens `path`, or standard output. A .npy file can only have vectors (`kind`). `print`: prints a record for people, instead of JSON on standard output. */
export function openOutput(
  path: string | undefined,
  resume: boolean,
  { kind, print }: { kind: 'vectors' | 'records'; print?: (record: object) => void },
): Output {
  if (path === undefined || path === '-') return standardOutput(print);
  const endings = ['.jsonl', '.ndjson', ...(kind === 'vectors' ? ['.npy'] : [])];
  if (![...endings, ''].includes(extname(path).toLowerCase()))
    throw invalid('--out', `a file that ends in ${endings.join(', ')}`, `'${path}'`);
  const isNew = !existsSync(path);
  if (!isNew && !resume) throw invalid('--out', 'a new file', `'${path}', which exists. Continue it with --resume`);
  const output = extname(path).toLowerCase() === '.npy' ? npyFile(path, isNew) : jsonlFile(path, isNew);
  const { close } = output;
  output.close = () => {
    close();
    if (isNew && output.count === 0) rmSync(path, { force: true });
  };
  return output;
}

function standardOutput(print?: (record: object) => void): Output {
  return {
    done: 0,
    count: 0,
    async write(record, vector) {
      if (print) print(record);
      else if (!process.stdout.write(line(record, vector))) await once(process.stdout, 'drain');
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

function jsonlFile(path: string, isNew: boolean): Output {
  const file = openSync(path, isNew ? 'w+' : 'r+');
  // An incomplete last line is overwritten.
  const { lines, end } = completeLines(file);
  ftruncateSync(file, end);
  let at = end;
  let count = lines;
  return {
    done: lines,
    get count() {
      return count;
    },
    async write(record, vector) {
      const bytes = Buffer.from(line(record, vector));
      for (let written = 0; written < bytes.length; )
        written += writeSync(file, bytes, written, undefined, at + written);
      at += bytes.length;
      count++;
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

function npyFile(path: string, isNew: boolean): Output {
  const file = openSync(path, isNew ? 'w+' : 'r+');
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
    get count() {
      return rows;
    },
    async write(_, vector) {
      const { values } = vector!; // openOutput ensures it
      const own = values instanceof Float32Array ? '<f4' : values instanceof Int8Array ? '|i1' : '|u1';
      if (width === 0) {
        [width, type, bytes] = [values.length, own, values.BYTES_PER_ELEMENT];
        writeSync(file, npyHeader(0, width, type), 0, NPY_HEADER_BYTES, 0);
      }
      const expected = `vectors of ${width} entries, as in the file's other rows`;
      if (values.length !== width) throw invalid(path, expected, `${values.length}`, 'SHAPE_MISMATCH');
      if (own !== type) throw invalid(path, `vectors of type ${type}, as in the file's other rows`, own);
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
