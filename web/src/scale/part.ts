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
import type { Line } from './lines.js';
import { type Manifest, partNames } from './manifest.js';

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

function rowLine({ file, line, id, error, vector }: Row, withVector: boolean): string {
  const about = { file, line, id, error };
  return vector && withVector ? jsonLine(about, vector) : jsonLine({ ...about, scale: vector?.scale });
}

/**
 * Writes the files of one part. `heed corpus finish` recognizes those of processes that died by their first bytes. A
 * Parquet file is empty until its first row group is complete.
 */
export class PartWriter {
  /** The files, under temporary names. */
  #files: { path: string; file: OwnFile }[] = [];
  #parquet: ParquetRows | null = null;

  /** `suffix`: unique suffix of the temporary file names. */
  constructor(
    private readonly folder: string,
    private readonly manifest: Manifest,
    private readonly chunk: number,
    private readonly suffix: string,
  ) {}

  write(rows: Row[]): void {
    const { parts } = this.manifest;
    this.#run(() => {
      const [lines, matrix] = this.#files;
      if (this.#parquet) this.#parquet.write(rows);
      else lines!.file.write(Buffer.from(rows.map((row) => rowLine(row, parts === 'jsonl')).join('')));
      matrix?.file.write(this.#matrix(rows));
    });
  }

  /** Syncs the files and renames them to their final names. Returns false if another process was first. */
  publish(): boolean {
    return this.#run(() => {
      this.#parquet?.finish();
      let isFirst = true;
      for (const { path, file } of this.#files) {
        file.sync();
        isFirst = file.publish(path);
        syncFolder(this.folder); // in this order: the last file tells that the others are there
      }
      this.discard();
      return isFirst;
    });
  }

  discard(): void {
    for (const { file } of this.#files.splice(0)) file.remove();
  }

  /** Makes the files before the first write, or for a chunk without rows. */
  #open(): void {
    const { folder, manifest, chunk, suffix } = this;
    for (const name of partNames(manifest, chunk)) {
      const path = join(folder, name);
      this.#files.push({ path, file: new OwnFile(`${path}.tmp-${suffix}`) });
    }
    const [first, matrix] = this.#files;
    if (manifest.parts === 'parquet') this.#parquet = new ParquetRows(first!.file.path, manifest.output);
    matrix?.file.write(matrixHeader(manifest, chunk));
  }

  /** The rows as the bytes of a matrix. Rows without a vector are NaN, or zeros in integer types. */
  #matrix(rows: Row[]): Uint8Array {
    const width = storedWidth(this.manifest);
    const matrix = new TYPES[this.manifest.output](rows.length * width);
    if (matrix instanceof Float32Array) matrix.fill(Number.NaN);
    for (const [n, { vector }] of rows.entries()) if (vector) matrix.set(vector.values, n * width);
    return new Uint8Array(matrix.buffer);
  }

  /** Runs `body` with open files. Deletes them if it fails. */
  #run<T>(body: () => T): T {
    const path = join(this.folder, partNames(this.manifest, this.chunk).at(-1)!);
    const run = () => {
      if (this.#files.length === 0) this.#open();
      return body();
    };
    try {
      return writing(path, run, 'run the same command again: finished parts are kept');
    } catch (error) {
      this.discard();
      throw error;
    }
  }
}

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
    const columns = columnsOf(output);
    this.#writer = new ParquetWriter({
      ...{ codec: 'UNCOMPRESSED', statistics: false }, // vectors do not compress
      writer: fileWriter(path),
      schema: [{ name: 'root', num_children: columns.length }, ...columns.flatMap(([own, below]) => [own, ...below])],
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
    const columnData = columnsOf(this.#output).map(([{ name }, _, data]) => ({ name, data: rows.map(data) }));
    this.#writer.write({ columnData: columnData as ColumnSource[], rowGroupSize: rows.length });
    this.#rows = [];
    this.#bytes = 0;
  }
}

const STRING = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const;
const REQUIRED = { repetition_type: 'REQUIRED' } as const;
const OPTIONAL = { repetition_type: 'OPTIONAL' } as const;

/** A column: its element of the schema, those below it, and a row's value. */
type Column = [element: SchemaElement, below: SchemaElement[], data: (row: Row) => unknown];

/**
 * The columns with an explicit schema. An inferred one would store whole numbers as integers, and lists need the three
 * levels of Parquet's standard.
 */
function columnsOf(output: VectorOutput): Column[] {
  const text = (value: unknown) => (value === undefined || typeof value === 'string' ? value : JSON.stringify(value));
  const number: Partial<SchemaElement> =
    output === 'float32' ? { type: 'FLOAT' } : { type: 'INT32', converted_type: 'INT_8' };
  const list: SchemaElement[] = [
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    { name: 'element', ...REQUIRED, ...number },
  ];
  const scale: Column = [{ name: 'scale', ...OPTIONAL, type: 'FLOAT' }, [], ({ vector }) => vector?.scale];
  const embedding: Column =
    output === 'binary'
      ? [{ name: 'embedding', ...OPTIONAL, type: 'BYTE_ARRAY' }, [], ({ vector }) => vector?.values]
      : [
          { name: 'embedding', ...OPTIONAL, num_children: 1, converted_type: 'LIST' },
          list,
          ({ vector }) => vector && Array.from(vector.values),
        ];
  return [
    [{ name: 'file', ...REQUIRED, ...STRING }, [], ({ file }) => file],
    [{ name: 'line', ...REQUIRED, type: 'INT64' }, [], ({ line }) => BigInt(line)],
    [{ name: 'id', ...OPTIONAL, ...STRING }, [], ({ id }) => text(id)],
    [{ name: 'error', ...OPTIONAL, ...STRING }, [], ({ error }) => error],
    ...(output === 'int8' ? [scale] : []),
    embedding,
  ];
}
