/** Reads the table of a static embedding. Imported on demand. */
import { invalid } from '../base/error.js';
import type { OpenFile } from '../io/files.js';
import { ByteReader } from '../io/reader.js';
import { codedWidth, parseHeader, readHeader, type TensorEntry } from '../io/safetensors.js';
import { Settings } from '../io/settings.js';
import { STATIC } from './static-embedding.js';
import { expandedTable, type StaticTensors } from './static-rows.js';

/** Finds the tensors of a static embedding in a file; null if there is no table. */
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
    columnScale: named(`${table.name}_column_scale`),
    mapping,
    weights,
    vocabSize: (mapping ?? weights ?? table).shape[0] ?? rows!,
    width: codedWidth(table, (name) => named(name)?.shape) ?? columns,
  };
}

export interface StaticTable {
  /** The configuration, completed by sizes from the file's header. */
  settings: Settings;
  /** The file, not yet read, with one row per token. */
  file: OpenFile;
  /** Whether the file has model2vec's format, rather than sentence-transformers'. */
  isModel2vec: boolean;
  /** Cancels the transfer of a file that will not be read. */
  close(): Promise<void>;
}

/** Opens the file with the table. Calls `onBytes` with the size of each chunk. */
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
    file: isExpanded(tensors)
      ? { name: given.name, size: null, chunks: () => expandedTable(reader, entries, tensors) }
      : { ...given, chunks },
    isModel2vec,
    close: () => reader.close(),
  };
}

/** Adds the sizes of a table to a configuration. */
export function tableSettings(config: Settings | null, rows: number, width: number, file: string): Settings {
  const sizes = { model_type: STATIC, vocab_size: rows, hidden_dim: width };
  return config?.with(sizes) ?? new Settings(sizes, file);
}

/**
 * Whether the table must be converted to a plain one. model2vec's int8 tables have no scales, and its values may be
 * float64.
 */
function isExpanded({ table, scale, mapping, weights }: StaticTensors): boolean {
  return Boolean(mapping ?? weights) || table.dtype === 'F64' || (table.dtype === 'I8' && !scale);
}
