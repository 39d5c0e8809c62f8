/**
 * Folders without an encoder: a text's vector is the mean of its tokens' rows of a table, without special tokens. sentence-transformers' StaticEmbedding, with a tensor
 * `embedding.weight`, and model2vec (Tulkens, van Dongen 2024), with `embeddings`; to the core, an encoder without layers.
 *
 * model2vec's vocabulary quantization stores few rows for many tokens: `mapping` [V] has each token's row, and `weights` [V] a factor on it. The rows are expanded when they are read.
 */
import { invalid, invalidFile } from '../error.js';
import type { OpenFile } from '../io/files.js';
import { ByteReader } from '../io/reader.js';
import {
  int4Width,
  parseHeader,
  readHeader,
  safetensorsHeader,
  type TensorEntry,
  tensorOf,
  widenNumbers,
} from '../io/safetensors.js';
import { Settings } from './config.js';

/** model2vec's name of its models in config.json. */
export const STATIC = 'model2vec';

/** Tokens that model2vec cuts texts to. */
export const MODEL2VEC_LENGTH = 512;

/** The tensors of a static embedding. */
export interface StaticTensors {
  table: TensorEntry;
  /** The scales of the table's rows. */
  scale: TensorEntry | undefined;
  mapping: TensorEntry | undefined;
  weights: TensorEntry | undefined;
  vocabSize: number;
  width: number;
}

/** Of the tensors in a file; null if there is no table among them. */
export function staticTensors(entries: readonly TensorEntry[]): StaticTensors | null {
  const named = (name: string) => entries.find((entry) => entry.name === name);
  const table = entries.find(({ name }) => /^(embedding\.weight|embeddings)$/.test(name));
  const [rows, columns] = table?.shape ?? [];
  if (!table || columns === undefined) return null;
  const isOwn = table.name === 'embeddings';
  const [mapping, weights] = isOwn ? [named('mapping'), named('weights')] : [];
  return {
    table,
    scale: named(`${table.name}_scale`),
    mapping,
    weights,
    vocabSize: (mapping ?? weights ?? table).shape[0] ?? rows!,
    width: table.dtype === 'U8' ? int4Width(columns) : columns,
  };
}

export interface StaticTable {
  /** The configuration, with the sizes that only the file's header tells. */
  settings: Settings;
  /** To be read from its start: a table with one row per token. */
  file: OpenFile;
  /** Whether it is in model2vec's own layout, and not in that of sentence-transformers. */
  isModel2vec: boolean;
  /** Ends the transfer of a file that is not read. */
  close(): Promise<void>;
}

/** Opens the file with the table. `onBytes` is called with the length of each of its chunks. */
export async function openTable(
  given: OpenFile,
  config: Settings | null,
  onBytes?: (count: number) => void,
): Promise<StaticTable> {
  const reader = new ByteReader(given, onBytes);
  const [prefix, json] = await readHeader(reader);
  const entries = parseHeader(json, given.name, given.size);
  const tensors = staticTensors(entries);
  if (!tensors) {
    await reader.close();
    const got = entries.map(({ name }) => `'${name}'`).join(', ');
    throw invalid(given.name, "a table 'embedding.weight' or 'embeddings'", got || 'none', 'UNSUPPORTED');
  }
  async function* chunks(): AsyncIterable<Uint8Array> {
    yield prefix;
    yield json;
    yield* reader.rest();
  }
  const { table, vocabSize, width } = tensors;
  const isModel2vec = table.name === 'embeddings';
  return {
    settings: tableSettings(config, vocabSize, width, given.name),
    file: isExpanded(tensors) ? expanded(reader, entries, tensors) : { ...given, chunks },
    isModel2vec,
    close: () => reader.close(),
  };
}

/** A configuration with the sizes of a table. */
export function tableSettings(config: Settings | null, rows: number, width: number, file: string): Settings {
  const sizes = { model_type: STATIC, vocab_size: rows, hidden_dim: width };
  return new Settings({ ...Object.fromEntries(config?.entries() ?? []), ...sizes }, config?.file ?? file, '', '');
}

/** Whether the table differs from one that every model has. model2vec's int8 tables have no scales, and its numbers may be float64. */
function isExpanded({ table, scale, mapping, weights }: StaticTensors): boolean {
  return Boolean(mapping ?? weights) || table.dtype === 'F64' || (table.dtype === 'I8' && !scale);
}

/** Bytes of a chunk. */
const CHUNK = 1 << 20;

/** The file with a row per token: rows in 8 and 4 bits with the token's scale, others in fp32. */
function expanded(reader: ByteReader, entries: readonly TensorEntry[], tensors: StaticTensors): OpenFile {
  const { table, scale, mapping, weights, vocabSize, width } = tensors;
  const { name: file } = reader.file;
  const isQuantized = table.dtype === 'I8' || table.dtype === 'U8';
  const columns = isQuantized ? table.shape[1]! : width;
  const rowBytes = isQuantized ? columns : 4 * width;
  const scaleHeader = { name: `${table.name}_scale`, dtype: 'F32', shape: [vocabSize, 1], byteLength: 4 * vocabSize };
  const header = safetensorsHeader([
    ...(isQuantized ? [scaleHeader] : []),
    {
      name: table.name,
      dtype: isQuantized ? table.dtype : 'F32',
      shape: [vocabSize, columns],
      byteLength: vocabSize * rowBytes,
    },
  ]);
  async function* chunks(): AsyncIterable<Uint8Array> {
    const bytes = new Map<TensorEntry, Uint8Array>();
    for (const entry of entries) {
      const size = entry.end - entry.begin;
      if ([table, scale, mapping, weights].includes(entry)) bytes.set(entry, await reader.take(size, entry));
      else await reader.skip(size);
    }
    await reader.expectEnd();
    const numbers = (entry: TensorEntry | undefined, length: number) => {
      if (!entry) return null;
      const values = widenNumbers(bytes.get(entry)!, entry.dtype, tensorOf(file, entry.name));
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
    yield header;
    if (isQuantized) {
      const all = Float32Array.from({ length: vocabSize }, (_, t) => (scales?.[row(t)] ?? 1) * (factors?.[t] ?? 1));
      yield new Uint8Array(all.buffer);
    }
    const values = isQuantized ? null : widenNumbers(stored, table.dtype, tensorOf(file, table.name));
    const block = Math.max(1, Math.floor(CHUNK / rowBytes));
    for (let first = 0; first < vocabSize; first += block) {
      const count = Math.min(block, vocabSize - first);
      const out = new Uint8Array(count * rowBytes);
      const floats = new Float32Array(isQuantized ? 0 : count * width);
      for (let i = 0; i < count; i++) {
        const from = row(first + i) * columns;
        if (!values) out.set(stored.subarray(from, from + columns), i * columns);
        else {
          const factor = factors?.[first + i] ?? 1;
          for (let e = 0; e < width; e++) floats[i * width + e] = values[from + e]! * factor;
        }
      }
      yield values ? new Uint8Array(floats.buffer) : out;
    }
  }
  const size = header.length + (isQuantized ? 4 * vocabSize : 0) + vocabSize * rowBytes;
  return { name: file, size, chunks };
}
