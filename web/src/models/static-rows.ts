/** Converts model2vec's tables to files with one row per token. */
import { invalidFile } from '../base/error.js';
import { elementCount } from '../base/tensor.js';
import type { ByteReader } from '../io/reader.js';
import { readNumbers, safetensorsHeader, type TensorEntry, tensorOf } from '../io/safetensors.js';

/** The tensors of a static embedding. */
export interface StaticTensors {
  table: TensorEntry;
  /** The scales of the rows, and of the columns of trellis-coded rows. */
  scale: TensorEntry | undefined;
  columnScale: TensorEntry | undefined;
  mapping: TensorEntry | undefined;
  weights: TensorEntry | undefined;
  vocabSize: number;
  width: number;
}

/** The size of a chunk in bytes. */
const CHUNK = 1 << 20;

/** The converted file after its header: per token, rows of at most 8 bits with a scale, other rows in fp32. */
export async function* expandedTable(
  reader: ByteReader,
  entries: readonly TensorEntry[],
  { table, scale, columnScale, mapping, weights, vocabSize, width }: StaticTensors,
): AsyncIterable<Uint8Array> {
  const { name: file } = reader.file;
  const bytes = new Map<TensorEntry, Uint8Array>();
  for (const entry of entries) {
    const size = entry.end - entry.begin;
    if ([table, scale, columnScale, mapping, weights].includes(entry)) bytes.set(entry, await reader.take(size, entry));
    else await reader.skip(size);
  }
  await reader.expectEnd();
  const numbers = (entry: TensorEntry | undefined, length: number) => {
    if (!entry) return null;
    const values = readNumbers(bytes.get(entry)!, entry.dtype, tensorOf(file, entry.name));
    if (values.length === length) return values;
    throw invalidFile(tensorOf(file, entry.name), `${length} numbers`, `${values.length}`);
  };
  const rows = table.shape[0]!;
  const rowOf = numbers(mapping, vocabSize);
  const wrong = rowOf?.find((row) => !(Number.isInteger(row) && row >= 0 && row < rows));
  if (wrong !== undefined)
    throw invalidFile(tensorOf(file, 'mapping'), `rows of the table, from 0 to ${rows - 1}`, `${wrong}`);
  if (!rowOf && rows !== vocabSize)
    throw invalidFile(tensorOf(file, 'weights'), `${rows} numbers, one per row of the table`, `${vocabSize}`);
  const factors = numbers(weights, vocabSize);
  const scales = numbers(scale, rows);
  const stored = bytes.get(table)!;
  const row = (token: number) => rowOf?.[token] ?? token;

  const isQuantized = table.dtype === 'I8' || table.dtype === 'U8';
  const rowShape = isQuantized ? table.shape.slice(1) : [width];
  const columns = elementCount(rowShape);
  const rowBytes = isQuantized ? columns : 4 * width;
  const { name } = table;
  const shape = [vocabSize, ...rowShape];
  const scaleHeader = { name: `${name}_scale`, dtype: 'F32', shape: [vocabSize, 1], byteLength: 4 * vocabSize };
  const header = { name, dtype: isQuantized ? table.dtype : 'F32', shape, byteLength: vocabSize * rowBytes };
  const columnScales = columnScale && bytes.get(columnScale);
  const columnHeader = columnScale && { ...columnScale, byteLength: columnScale.end - columnScale.begin };
  yield safetensorsHeader([...(columnHeader ? [columnHeader] : []), ...(isQuantized ? [scaleHeader] : []), header]);
  if (columnScales) yield columnScales;
  if (isQuantized) {
    const all = Float32Array.from({ length: vocabSize }, (_, t) => (scales?.[row(t)] ?? 1) * (factors?.[t] ?? 1));
    yield new Uint8Array(all.buffer);
  }
  const values = isQuantized ? null : readNumbers(stored, table.dtype, tensorOf(file, name));
  const block = Math.max(1, Math.floor(CHUNK / rowBytes));
  for (let first = 0; first < vocabSize; first += block) {
    const count = Math.min(block, vocabSize - first);
    const out = new Uint8Array(count * rowBytes);
    const floats = values ? new Float32Array(out.buffer) : new Float32Array();
    for (let i = 0; i < count; i++) {
      const from = row(first + i) * columns;
      const factor = factors?.[first + i] ?? 1;
      if (values) for (let e = 0; e < width; e++) floats[i * width + e] = values[from + e]! * factor;
      else out.set(stored.subarray(from, from + columns), i * columns);
    }
    yield out;
  }
}
