/**
 * Writes the part of one chunk as JSON lines, .npy or Parquet. Files are complete and synced before they are renamed to
 * their final names, and they never replace existing files. So a part is written exactly once, even if processes crash
 * at any point.
 */
import { join } from 'node:path';
import type { SchemaElement } from 'hyparquet';
import { type ColumnSource, fileWriter, ParquetWriter } from 'hyparquet-writer';
import { OwnFile, syncFolder } from '../base/own-files.js';
import type { VectorOutput } from '../index.js';
import { bitsOf, int8Of } from '../models/index.js';
import { jsonLine, npyHeader, npyTypeOf, readRange, type Stored, writing } from '../node/index.js';
import type { Line } from './corpus.js';
import { type Manifest, type PartFormat, partNames } from './manifest.js';

/** A row of a part: a vector, or the error of a line that has none. */
export interface Row extends Omit<Line, 'text'> {
  file: string;
  vector?: Stored | undefined;
}

export function storedOf(vector: Float32Array, output: VectorOutput): Stored {
  if (output === 'float32') return { values: vector };
  return output === 'binary' ? { values: bitsOf(vector) } : int8Of(vector);
}

/** Number of stored entries per row. */
export const storedWidth = ({ width, output }: Manifest) => (output === 'binary' ? Math.ceil(width / 8) : width);

/** A row as JSON. */
function rowLine({ file, line, id, error, vector }: Row, withVector: boolean): string {
  const about = { file, line, id, error };
  return vector && withVector ? jsonLine(about, vector) : jsonLine({ ...about, scale: vector?.scale });
}

/**
 * Writes the files of one part. `heed corpus finish` recognizes those of processes that died by their first bytes. A
 * Parquet file is empty until its first row group is complete.
 */
export class PartWriter {
  readonly #folder: string;
  readonly #manifest: Manifest;
  readonly #chunk: number;
  readonly #suffix: string;
  readonly #format: PartFormat;
  /** The files, under temporary names. */
  #files: { path: string; file: OwnFile }[] = [];
  #parquet: ParquetRows | null = null;
  #written = 0;

  /** `suffix`: unique suffix of the temporary file names. */
  constructor(folder: string, manifest: Manifest, chunk: number, suffix: string) {
    this.#folder = folder;
    this.#manifest = manifest;
    this.#chunk = chunk;
    this.#suffix = suffix;
    this.#format = manifest.parts;
  }

  /** Adds rows in order. */
  write(rows: Row[]): void {
    this.#open();
    this.#written += rows.length;
    if (this.#parquet) this.#wrap(this.#files[0]!.path, () => this.#parquet!.write(rows));
    else this.#append(0, Buffer.from(rows.map((row) => rowLine(row, this.#format === 'jsonl')).join('')));
    if (this.#format === 'npy') this.#append(1, this.#matrix(rows));
  }

  get rows(): number {
    return this.#written;
  }

  /** Syncs the files and renames them to their final names. Returns false if another process was first. */
  publish(): boolean {
    this.#open(); // a chunk may have no rows
    let first = true;
    for (const { path, file } of this.#files) {
      first = this.#wrap(path, () => {
        this.#parquet?.finish();
        file.sync();
        const isFirst = file.publish(path);
        syncFolder(this.#folder); // in this order: the last file tells that the others are there
        return isFirst;
      });
    }
    this.discard();
    return first;
  }

  /** Closes and deletes the temporary files. */
  discard(): void {
    for (const { file } of this.#files.splice(0)) file.remove();
  }

  #open(): void {
    if (this.#files.length > 0) return;
    for (const name of partNames(this.#manifest, this.#chunk)) {
      const path = join(this.#folder, name);
      const file = this.#wrap(path, () => new OwnFile(`${path}.tmp-${this.#suffix}`));
      this.#files.push({ path, file });
    }
    const { path, file } = this.#files[0]!;
    if (this.#format === 'parquet')
      this.#parquet = this.#wrap(path, () => new ParquetRows(file.path, this.#manifest.output));
    if (this.#format === 'npy') this.#append(1, matrixHeader(this.#manifest, this.#chunk));
  }

  /** The rows as the bytes of a matrix. Rows without a vector are NaN, or zeros in integer types. */
  #matrix(rows: Row[]): Uint8Array {
    const width = storedWidth(this.#manifest);
    const matrix = new TYPES[this.#manifest.output](rows.length * width);
    if (matrix instanceof Float32Array) matrix.fill(Number.NaN);
    for (const [n, { vector }] of rows.entries()) if (vector) matrix.set(vector.values, n * width);
    return new Uint8Array(matrix.buffer);
  }

  #append(index: number, data: Uint8Array): void {
    const { path, file } = this.#files[index]!;
    this.#wrap(path, () => file.write(data));
  }

  #wrap<T>(path: string, body: () => T): T {
    try {
      return writing(path, body, 'run the same command again: finished parts are kept');
    } catch (error) {
      this.discard();
      throw error;
    }
  }
}

/** The header of the .npy file of a part. */
const matrixHeader = (manifest: Manifest, chunk: number): Uint8Array =>
  npyHeader(manifest.chunks[chunk]!.rows, storedWidth(manifest), npyTypeOf(new TYPES[manifest.output]()));

/** Bytes at the beginning of a file in which it is recognized. */
const START = 1 << 20;

/** What a row of a chunk begins with, in JSON. */
export const rowStart = (file: string): Buffer => Buffer.from(`{"file":${JSON.stringify(file)},"line":`);

/** Whether a file is, or begins like, the file `name` of a chunk's part, even if it is incomplete or damaged. */
export function isPartFile(path: string, name: string, manifest: Manifest, chunk: number): boolean {
  if (name.endsWith('.npy')) {
    const header = matrixHeader(manifest, chunk);
    return Buffer.from(readRange(path, 0, header.length)).equals(header);
  }
  const { file } = manifest.chunks[chunk]!;
  const start = Buffer.from(readRange(path, 0, START));
  if (name.endsWith('.parquet')) return start.subarray(0, 4).equals(Buffer.from('PAR1')) && start.includes(file);
  return start.includes(rowStart(file));
}

/** The arrays of stored vectors. */
const TYPES = { float32: Float32Array, int8: Int8Array, binary: Uint8Array };

/**
 * Metadata key of a Parquet part. The value is { line, errors }: the part's first line and its number of rows without a
 * vector.
 */
export const PARQUET_KEY = 'heed';

/** A row group ends after the row that reaches this many bytes, so that memory does not depend on the length of a part. */
export const ROW_GROUP_BYTES = 32 << 20;

/** A Parquet file with the columns file, line, id, error, scale (int8) and embedding: a list of floats, a list of int8, or bytes. */
class ParquetRows {
  readonly #writer: ParquetWriter;
  readonly #output: VectorOutput;
  /** Rows of the next row group, and the bytes of their vectors. */
  #rows: Row[] = [];
  #bytes = 0;
  readonly #about = { line: 0, errors: 0 };
  /** Written with the footer. */
  readonly #metadata = { key: PARQUET_KEY, value: '' };

  constructor(path: string, output: VectorOutput) {
    this.#output = output;
    const options = { codec: 'UNCOMPRESSED', statistics: false } as const; // vectors do not compress
    this.#writer = new ParquetWriter({
      ...options,
      writer: fileWriter(path),
      schema: parquetSchema(output),
      kvMetadata: [this.#metadata],
    });
  }

  write(rows: Row[]): void {
    for (const row of rows) {
      if (this.#about.line === 0) this.#about.line = row.line;
      if (row.error !== undefined) this.#about.errors++;
      this.#rows.push(row);
      this.#bytes += row.vector?.values.byteLength ?? 0;
      if (this.#bytes >= ROW_GROUP_BYTES) this.#writeGroup();
    }
  }

  finish(): void {
    if (this.#rows.length > 0) this.#writeGroup();
    this.#metadata.value = JSON.stringify(this.#about);
    this.#writer.finish();
  }

  #writeGroup(): void {
    const rows = this.#rows;
    const text = (value: unknown) =>
      value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value);
    const vectors = rows.map(({ vector }) => vector);
    const columnData: ColumnSource[] = [
      { name: 'file', data: rows.map(({ file }) => file) },
      { name: 'line', data: rows.map(({ line }) => BigInt(line)) },
      { name: 'id', data: rows.map(({ id }) => text(id)) },
      { name: 'error', data: rows.map(({ error }) => error) },
    ];
    if (this.#output === 'int8') columnData.push({ name: 'scale', data: vectors.map((each) => each?.scale) });
    const isList = this.#output !== 'binary';
    const stored = vectors.map((each) => each && (isList ? Array.from(each.values) : each.values));
    columnData.push({ name: 'embedding', data: stored });
    this.#writer.write({ columnData, rowGroupSize: rows.length });
    this.#rows = [];
    this.#bytes = 0;
  }
}

/**
 * An explicit schema. An inferred one would store whole numbers as integers, and lists need the three levels of
 * Parquet's standard.
 */
function parquetSchema(output: VectorOutput): SchemaElement[] {
  const STRING = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const;
  const [REQUIRED, OPTIONAL] = [{ repetition_type: 'REQUIRED' }, { repetition_type: 'OPTIONAL' }] as const;
  const schema: SchemaElement[] = [
    { name: 'root', num_children: output === 'int8' ? 6 : 5 },
    { name: 'file', ...REQUIRED, ...STRING },
    { name: 'line', ...REQUIRED, type: 'INT64' },
    { name: 'id', ...OPTIONAL, ...STRING },
    { name: 'error', ...OPTIONAL, ...STRING },
  ];
  if (output === 'int8') schema.push({ name: 'scale', ...OPTIONAL, type: 'FLOAT' });
  if (output === 'binary') schema.push({ name: 'embedding', ...OPTIONAL, type: 'BYTE_ARRAY' });
  else
    schema.push(
      { name: 'embedding', ...OPTIONAL, num_children: 1, converted_type: 'LIST' },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      {
        name: 'element',
        ...REQUIRED,
        ...(output === 'float32' ? { type: 'FLOAT' } : { type: 'INT32', converted_type: 'INT_8' }),
      },
    );
  return schema;
}
