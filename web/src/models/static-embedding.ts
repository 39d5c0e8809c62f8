/**
 * Folders without an encoder: a text's vector is the mean of its tokens' rows of a table, without special tokens. sentence-transformers' StaticEmbedding, with a tensor
 * `embedding.weight`, and model2vec (Tulkens, van Dongen 2024), with `embeddings`; to the core, an encoder without layers.
 */
import { invalid } from '../error.js';
import type { OpenFile } from '../io/files.js';
import { ByteReader } from '../io/reader.js';
import { int4Width, parseHeader, readHeader } from '../io/safetensors.js';
import { Settings } from './config.js';

/** model2vec's name of its models in config.json. */
export const STATIC = 'model2vec';

/** Tokens that model2vec cuts texts to. */
export const MODEL2VEC_LENGTH = 512;

/** The configuration of a table, whose sizes only its header tells, and the file to read from its start. */
export async function openTable(
  file: OpenFile,
  config: Settings | null,
): Promise<{ settings: Settings; file: OpenFile }> {
  const reader = new ByteReader(file);
  const [prefix, json] = await readHeader(reader);
  const entries = parseHeader(json, file.name, file.size);
  const table = entries.find(({ name }) => /^(embedding\.weight|embeddings)$/.test(name));
  const others = entries.filter(({ name }) => name === 'mapping' || name === 'weights');
  const [rows, columns] = table?.shape ?? [];
  if (!table || columns === undefined || others.length > 0) {
    await reader.close();
    const got = entries.map(({ name }) => `'${name}'`).join(', ');
    throw invalid(file.name, "a table 'embedding.weight' or 'embeddings' alone", got || 'none', 'UNSUPPORTED');
  }
  async function* chunks(): AsyncIterable<Uint8Array> {
    yield prefix;
    yield json;
    yield* reader.rest();
  }
  const width = table.dtype === 'U8' ? int4Width(columns) : columns;
  return { settings: tableSettings(config, rows!, width, file.name), file: { ...file, chunks } };
}

/** A configuration with the sizes of a table. */
export function tableSettings(config: Settings | null, rows: number, width: number, file: string): Settings {
  const sizes = { model_type: STATIC, vocab_size: rows, hidden_dim: width };
  return new Settings({ ...Object.fromEntries(config?.entries() ?? []), ...sizes }, config?.file ?? file, '', '');
}
