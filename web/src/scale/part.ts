/**
 * Writes the part of one chunk as JSON lines, .npy or Parquet. Files are complete and synced before they are renamed to
 * their final names, and they never replace existing files. So a part is written exactly once, even if processes crash
 * at any point.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { SchemaElement } from 'hyparquet';
import { type ColumnSource, fileWriter, ParquetWriter } from 'hyparquet-writer';
import type { VectorOutput } from '../index.js';
import { bitsOf, int8Of } from '../models/index.js';
import { npyHeader, npyTypeOf, publish, writeAll, writing } from '../node/index.js';
import type { Line } from './corpus.js';
import { type Manifest, type PartFormat, partNames } from './manifest.js';

/** A row of a part: a vector, or the error of a line that has none. */
export interface Row extends Omit<Line, 'text'> {
  file: string;
  vector?: Stored | undefined;
}

/** A vector as it is stored. */
export interface Stored {
  values: Float32Array | Int8Array | Uint8Array;
  /** int8 only; value = int8 * scale. */
  scale?: number | undefined;
}

export function storedOf(vector: Float32Array, output: VectorOutput): Stored {
  if (output === 'float32') return { values: vector };
  return output === 'binary' ? { values: bitsOf(vector) } : int8Of(vector);
}

/** Number of stored entries per row. */
export const storedWidth = ({ width, output }: Manifest) => (output === 'binary' ? Math.ceil(width / 8) : width);

/** Nine significant digits determine every fp32 value exactly. */
const decimal = (v: number) => (Object.is(v, -0) ? '-0' : String(Number(v.toPrecision(9))));

/** A row as JSON. */
function jsonLine({ file, line, id, error, vector }: Row, withVector = true): string {
  const head = JSON.stringify({ file, line, id, error, scale: vector?.scale }).slice(0, -1);
  if (!vector || !withVector) return `${head}}\n`;
  const { values } = vector;
  const numbers = values instanceof Float32Array ? Array.from(values, (v) => decimal(v)) : values;
  return `${head},"embedding":[${numbers.join(',')}]}\n`;
}

/** Writes the files of one part. */
export class PartWriter {
  readonly #manifest: Manifest;
  /** The files, under temporary names. */
  readonly #files: { path: string; temporary: string; handle: number }[] = [];
  readonly #format: PartFormat;
  readonly #parquet: ParquetRows | null = null;
  #written = 0;

  /** `suffix`: unique suffix of the temporary file names. */
  constructor(folder: string, manifest: Manifest, chunk: number, suffix: string) {
    this.#manifest = manifest;
    this.#format = manifest.parts;
    for (const name of partNames(manifest, chunk)) {
      const path = join(folder, name);
      const temporary = `${path}.tmp-${suffix}`;
      this.#files.push({ path, temporary, handle: this.#wrap(path, () => fs.openSync(temporary, 'w')) });
    }
    const { path, temporary } = this.#files[0]!;
    if (this.#format === 'parquet') this.#parquet = this.#wrap(path, () => new ParquetRows(temporary, manifest.output));
    if (this.#format === 'npy')
      this.#append(
        1,
        npyHeader(manifest.chunks[chunk]!.rows, storedWidth(manifest), npyTypeOf(new TYPES[manifest.output]())),
      );
  }

  /** Adds rows in order. */
  write(rows: Row[]): void {
    this.#written += rows.length;
    if (this.#parquet) this.#wrap(this.#files[0]!.path, () => this.#parquet!.write(rows));
    else this.#append(0, Buffer.from(rows.map((row) => jsonLine(row, this.#format === 'jsonl')).join('')));
    if (this.#format === 'npy') this.#append(1, this.#matrix(rows));
  }

  get rows(): number {
    return this.#written;
  }

  /** Syncs the files and renames them to their final names. Returns false if another process was first. */
  publish(): boolean {
    let first = true;
    for (const { path, temporary, handle } of this.#files) {
      first = this.#wrap(path, () => {
        this.#parquet?.finish();
        fs.fsyncSync(handle);
        return publish(temporary, path);
      });
    }
    this.discard();
    return first;
  }

  /** Closes and deletes the temporary files. */
  discard(): void {
    for (const { temporary, handle } of this.#files.splice(0)) {
      fs.closeSync(handle);
      fs.rmSync(temporary, { force: true });
    }
  }

  /** The rows as the bytes of a matrix. Rows without a vector are NaN, or zeros in integer types. */
  #matrix(rows: Row[]): Uint8Array {
    const width = storedWidth(this.#manifest);
    const matrix = new TYPES[this.#manifest.output](rows.length * width);
    if (matrix instanceof Float32Array) matrix.fill(Number.NaN);
    for (const [n, { vector }] of rows.entries()) if (vector) matrix.set(vector.values, n * width);
    return new Uint8Array(matrix.buffer);
  }

  #append(file: number, data: Uint8Array): void {
    const { path, handle } = this.#files[file]!;
    this.#wrap(path, () => writeAll(handle, data));
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
