/**
 * Writes results as JSON lines to standard output or a file, or as vectors to a .npy file. Incomplete files can be
 * continued.
 */
import { once } from 'node:events';
import * as fs from 'node:fs';
import { extname } from 'node:path';
import {
  invalid,
  invalidFile,
  NPY_HEADER_BYTES,
  npyHeader,
  npyShape,
  npyType,
  npyTypeOf,
  remove,
  statusOf,
  writeAll,
  writing,
} from '../node/index.js';

/** A vector as fp32, int8 with a scale, or bits. */
export interface OutputVector {
  values: Float32Array | Int8Array | Uint8Array;
  scale?: number;
}

export interface Output {
  /** Number of records that an earlier run has written. */
  readonly done: number;
  /** Number of records that this run and earlier ones have written. */
  readonly count: number;
  /** Whether the last record of the earlier run equals this one, ignoring the location of its text. */
  endsWith(record: object, vector?: OutputVector): boolean;
  /** Writes one record and, for embeddings, its vector. */
  write(record: object, vector?: OutputVector): Promise<void>;
  /** Completes the file. Deletes it if this run created it and it has no records. */
  close(): void;
}

/**
 * Opens `path`, or standard output. A .npy file can only contain vectors (`kind`). `print`: prints a record in
 * human-readable form instead of as JSON on standard output.
 */
export function openOutput(
  path: string | undefined,
  resume: boolean,
  { kind, print }: { kind: 'vectors' | 'records'; print?: (record: object) => void },
): Output {
  if (path === undefined || path === '-') return standardOutput(print);
  const endings = ['.jsonl', '.ndjson', ...(kind === 'vectors' ? ['.npy'] : [])];
  if (![...endings, ''].includes(extname(path).toLowerCase()))
    throw invalid('--out', `a file that ends in ${endings.join(', ')}`, `'${path}'`);
  const status = statusOf(path);
  if (status?.isDirectory()) throw invalid('--out', 'a file', `'${path}', which is a folder`);
  if (status && !resume) throw invalid('--out', 'a new file', `'${path}', which exists. Continue it with --resume`);
  return new OutputFile(path, status === undefined, extname(path).toLowerCase() === '.npy' ? npyForm : jsonLinesForm);
}

function standardOutput(print?: (record: object) => void): Output {
  return {
    done: 0,
    count: 0,
    endsWith: () => true,
    async write(record, vector) {
      if (print) print(record);
      else if (!process.stdout.write(line(record, vector))) await once(process.stdout, 'drain');
    },
    close() {},
  };
}

/** The format of records in a file. */
interface Form {
  /**
   * Number of complete records in an existing file, and where the last one begins and ends. An incomplete record after
   * it is overwritten.
   */
  readonly found: { count: number; start: number; end: number };
  /** The bytes to append for a record. `isFirst`: whether it is the first record of the file. */
  bytesOf(record: object, vector: OutputVector | undefined, isFirst: boolean): Uint8Array;
  /** Whether `bytes` represent the given record, ignoring the location of its text. */
  isSame(bytes: Uint8Array, record: object, vector?: OutputVector): boolean;
  /** The header of a file with `count` records. */
  header?(count: number): Uint8Array;
}

class OutputFile implements Output {
  readonly done: number;
  readonly #path: string;
  readonly #isNew: boolean;
  readonly #file: number;
  readonly #form: Form;
  #count: number;
  #end: number;

  constructor(path: string, isNew: boolean, formOf: (file: number, path: string) => Form) {
    this.#path = path;
    this.#isNew = isNew;
    this.#file = writing(path, () => fs.openSync(path, isNew ? 'wx+' : 'r+'));
    this.#form = formOf(this.#file, path);
    const { count, end } = this.#form.found;
    this.done = this.#count = count;
    this.#end = end;
  }

  get count(): number {
    return this.#count;
  }

  endsWith(record: object, vector?: OutputVector): boolean {
    const { start, end } = this.#form.found;
    const last = new Uint8Array(end - start);
    fs.readSync(this.#file, last, 0, last.length, start);
    return this.#form.isSame(last, record, vector);
  }

  async write(record: object, vector?: OutputVector): Promise<void> {
    const bytes = this.#form.bytesOf(record, vector, this.#count === 0);
    writing(this.#path, () => writeAll(this.#file, bytes, this.#end), 'continue with --resume');
    this.#end += bytes.length;
    this.#count++;
  }

  close(): void {
    writing(this.#path, () => {
      try {
        fs.ftruncateSync(this.#file, this.#end); // drops an incomplete record
        if (this.#count > 0 && this.#form.header) writeAll(this.#file, this.#form.header(this.#count), 0);
        fs.fsyncSync(this.#file); // some systems report a full disk only here
      } finally {
        fs.closeSync(this.#file);
      }
    });
    if (this.#isNew && this.#count === 0) remove(this.#path);
  }
}

/** fp32 has about 7 significant digits. More digits would only make the file longer. */
function numbersOf({ values }: OutputVector): number[] {
  return Array.from(values, (v) => (values.BYTES_PER_ELEMENT === 4 ? Number(v.toPrecision(7)) : v));
}

function line(record: object, vector?: OutputVector): string {
  const full = vector ? { ...record, scale: vector.scale, embedding: numbersOf(vector) } : record;
  return `${JSON.stringify(full)}\n`;
}

function jsonLinesForm(file: number): Form {
  return {
    found: completeLines(file),
    bytesOf: (record, vector) => Buffer.from(line(record, vector)),
    isSame(bytes, record, vector) {
      try {
        const { file: _, line: __, index: ___, id: ____, ...stored } = JSON.parse(Buffer.from(bytes).toString());
        return `${JSON.stringify(stored)}\n` === line(record, vector);
      } catch {
        return false;
      }
    },
  };
}

function completeLines(file: number): Form['found'] {
  const buffer = Buffer.alloc(1 << 16);
  const found = { count: 0, start: 0, end: 0 };
  for (let at = 0; ; ) {
    const count = fs.readSync(file, buffer, 0, buffer.length, at);
    if (count === 0) return found;
    const read = buffer.subarray(0, count);
    for (let i = read.indexOf(10); i >= 0; i = read.indexOf(10, i + 1)) {
      found.count++;
      found.start = found.end;
      found.end = at + i + 1;
    }
    at += count;
  }
}

function npyForm(file: number, path: string): Form {
  const header = Buffer.alloc(NPY_HEADER_BYTES);
  const read = fs.readSync(file, header, 0, NPY_HEADER_BYTES, 0);
  const [rows, width = 0] = (read === NPY_HEADER_BYTES && npyShape(header)) || [];
  const type = npyType(header);
  const isOwn = width > 0 ? header.equals(npyHeader(rows!, width, type)) : isStartOfHeader(header.subarray(0, read));
  if (!isOwn) throw invalidFile(path, 'a .npy file of vectors', 'a file that heed did not write');
  const form = { width, type };
  const bytes = Number(type.at(-1)) * width;
  const count = width > 0 ? Math.floor((fs.fstatSync(file).size - NPY_HEADER_BYTES) / bytes) : 0;
  const end = count > 0 ? NPY_HEADER_BYTES + count * bytes : 0;
  const bytesOf = ({ values }: OutputVector) => {
    const expected = `vectors of ${form.width} entries, as in the file's other rows`;
    if (values.length !== form.width) throw invalid(path, expected, `${values.length}`, 'SHAPE_MISMATCH');
    const own = npyTypeOf(values);
    if (own !== form.type) throw invalid(path, `vectors of type ${form.type}, as in the file's other rows`, own);
    return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  };
  return {
    found: { count, start: end - bytes, end },
    bytesOf(_, vector, isFirst) {
      const { values } = vector!; // openOutput ensures it
      if (!isFirst) return bytesOf(vector!);
      form.width = values.length;
      form.type = npyTypeOf(values);
      return Buffer.concat([npyHeader(0, form.width, form.type), bytesOf(vector!)]);
    },
    isSame: (stored, _, vector) => bytesOf(vector!).equals(stored),
    header: (rows) => npyHeader(rows, form.width, form.type),
  };
}

/** Whether a file that is too short for a header begins like one. */
const isStartOfHeader = (bytes: Buffer) =>
  bytes.subarray(0, 6).equals(npyHeader(0, 0).subarray(0, Math.min(bytes.length, 6)));
