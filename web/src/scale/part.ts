/**
 * Writes the part of one chunk: JSON lines, .npy or Parquet. The files are complete and synced before they get their names, and never replace one that is there, so a part is
 * written once, whoever dies when.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { SchemaElement } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { HeedError } from '../index.js';
import { bitsOf, int8Of } from '../models/quantized.js';
import type { Line } from './corpus.js';
import { publish, unwritable } from './files.js';
import { type Manifest, type PartFormat, partNames, type VectorType } from './manifest.js';
import { npyHeader } from './npy.js';

/** A row of a part: a vector, or for a line without a text the reason. */
export interface Row extends Omit<Line, 'text'> {
  file: string;
  vector?: Stored;
}

/** A vector as it is stored. */
export interface Stored {
  values: Float32Array | Int8Array | Uint8Array;
  /** int8 only: value = int8 * scale. */
  scale?: number;
}

export function storedOf(vector: Float32Array, output: VectorType): Stored {
  if (output === 'fp32') return { values: vector };
  return output === 'binary' ? { values: bitsOf(vector) } : int8Of(vector);
}

/** The number of entries that a row stores. */
export const storedWidth = ({ width, output }: Manifest) => (output === 'binary' ? Math.ceil(width / 8) : width);

/** Nine significant digits give back every fp32 value exactly. */
const decimal = (v: number) => (Object.is(v, -0) ? '-0' : String(Number(v.toPrecision(9))));

/** A row as JSON. */
function jsonLine({ file, line, id, error, vector }: Row, withVector = true): string {
  const head = JSON.stringify({ file, line, id, error, scale: vector?.scale }).slice(0, -1);
  if (!vector || !withVector) return `${head}}\n`;
  const { values } = vector;
  const numbers = values instanceof Float32Array ? Array.from(values, (v) => decimal(v)) : values;
  return `${head},"embedding":[${numbers.join(',')}]}\n`;
}

/** The files of a part while they are written. */
export class PartWriter {
  readonly #folder: string;
  readonly #manifest: Manifest;
  /** The files, under temporary names. */
  readonly #files: { path: string; temporary: string; handle: number }[] = [];
  readonly #format: PartFormat;
  readonly #rows: Row[] = [];
  #written = 0;

  /** `suffix`: of the temporary names, which no other process uses. */
  constructor(folder: string, manifest: Manifest, chunk: number, suffix: string) {
    this.#folder = folder;
    this.#manifest = manifest;
    this.#format = manifest.parts;
    for (const name of partNames(manifest, chunk)) {
      const path = join(folder, name);
      const temporary = `${path}.tmp-${suffix}`;
      this.#files.push({ path, temporary, handle: this.#wrap(path, () => fs.openSync(temporary, 'w')) });
    }
    if (this.#format === 'npy')
      this.#append(1, npyHeader(manifest.chunks[chunk]!.rows, storedWidth(manifest), NPY_TYPES[manifest.output]));
  }

  /** Adds rows in order. */
  write(rows: Row[]): void {
    this.#written += rows.length;
    if (this.#format === 'parquet') this.#rows.push(...rows);
    else this.#append(0, rows.map((row) => jsonLine(row, this.#format === 'jsonl')).join(''));
    if (this.#format === 'npy') this.#append(1, this.#matrix(rows));
  }

  get rows(): number {
    return this.#written;
  }

  /** Syncs the files and gives them their names. False if another process was first. */
  publish(): boolean {
    if (this.#format === 'parquet') this.#append(0, parquetOf(this.#rows, this.#manifest.output));
    let first = true;
    for (const { path, temporary, handle } of this.#files) {
      first = this.#wrap(path, () => {
        fs.fsyncSync(handle);
        return publish(this.#folder, temporary, path);
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

  /** Rows as the bytes of a matrix; a line without a vector has NaN, or zeros if that is not a number of the type. */
  #matrix(rows: Row[]): Uint8Array {
    const width = storedWidth(this.#manifest);
    const Type = { fp32: Float32Array, int8: Int8Array, binary: Uint8Array }[this.#manifest.output];
    const matrix = new Type(rows.length * width);
    if (matrix instanceof Float32Array) matrix.fill(Number.NaN);
    for (const [n, { vector }] of rows.entries()) if (vector) matrix.set(vector.values, n * width);
    return new Uint8Array(matrix.buffer);
  }

  #append(file: number, data: string | Uint8Array): void {
    const { path, handle } = this.#files[file]!;
    this.#wrap(path, () => fs.writeFileSync(handle, data));
  }

  #wrap<T>(path: string, body: () => T): T {
    try {
      return body();
    } catch (cause) {
      this.discard();
      if (cause instanceof HeedError) throw cause;
      throw unwritable(path, cause);
    }
  }
}

const NPY_TYPES = { fp32: '<f4', int8: '|i1', binary: '|u1' };

/** The key of what a Parquet part says of itself: { line, errors }, its first line and the number of rows without a vector. */
export const PARQUET_KEY = 'heed';

/** A Parquet file with the columns file, line, id, error, scale (int8) and embedding: a list of floats, a list of int8, or bytes. */
function parquetOf(rows: Row[], output: VectorType): Uint8Array {
  const text = (value: unknown) =>
    value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value);
  const vectors = rows.map(({ vector }) => vector);
  const list = { name: 'embedding', data: vectors.map((each) => each && Array.from(each.values)) };
  const bytes = { name: 'embedding', data: vectors.map((each) => each?.values) };
  const columnData = [
    { name: 'file', data: rows.map(({ file }) => file) },
    { name: 'line', data: rows.map(({ line }) => BigInt(line)) },
    { name: 'id', data: rows.map(({ id }) => text(id)) },
    { name: 'error', data: rows.map(({ error }) => error) },
    ...(output === 'int8' ? [{ name: 'scale', data: vectors.map((each) => each?.scale) }] : []),
    output === 'binary' ? bytes : list,
  ];
  // Given, not guessed: whole numbers are floats too, and a list has the standard's three levels.
  const STRING = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const;
  const [REQUIRED, OPTIONAL] = [{ repetition_type: 'REQUIRED' }, { repetition_type: 'OPTIONAL' }] as const;
  const schema: SchemaElement[] = [
    { name: 'root', num_children: columnData.length },
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
        ...(output === 'fp32' ? { type: 'FLOAT' } : { type: 'INT32', converted_type: 'INT_8' }),
      },
    );
  const errors = rows.filter(({ error }) => error !== undefined).length;
  const kvMetadata = [{ key: PARQUET_KEY, value: JSON.stringify({ line: rows[0]!.line, errors }) }];
  // Vectors do not compress.
  return new Uint8Array(
    parquetWriteBuffer({ columnData, schema, codec: 'UNCOMPRESSED', statistics: false, kvMetadata }),
  );
}
