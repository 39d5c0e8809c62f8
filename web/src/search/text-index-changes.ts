/**
 * Loads, changes and saves a TextIndex. Format of `index.safetensors`, for N texts:
 * - `vectors`: I8 [N,D], F32 [N,D] or, for bits, U8 [N, D / 8]
 * - `vectors_scale`: F32 [N,1], for I8 only: value = int8 * scale; for the cosine, the values have unit norm
 * - `ids`: F64 [N], absent if they equal the row numbers
 * - `texts`: U8, all texts in UTF-8, concatenated; `text_lengths`: U32 [N], their lengths in UTF-16 units. Without
 *   these, the texts are in `words.txt`, one per line
 * - metadata: `heed_index`, the version of the format (1, also if absent; 2 with `similarity`, which is 'dot');
 *   `next_id`, the next id to assign; `prompt`, the text before each text, if it is not the model's own
 * same-model.ts defines the data that identify the model.
 */

import { formatShape, guarded, type HeedError, invalid, invalidFile } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { HubOptions } from '../base/hub-options.js';
import { listOf, natural, optional, readOptions, type Schema, signal, size } from '../base/options.js';
import type { BlobLike, SignalLike, UrlLike } from '../base/platform.js';
import { bytesOf, isBlob } from '../io/bytes.js';
import { concatenate, type ModelFolder, readAll } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { ByteReader } from '../io/reader.js';
import { metadataOf, parseHeader, readHeader, writeSafetensors } from '../io/safetensors.js';
import { type ModelSource, type RemoteOptions, withFolder } from '../io/source.js';
import { remoteSchema } from '../models/call-options.js';
import { normsOf, type Rows } from '../models/quantized.js';
import {
  embedderOption,
  embedFor,
  type IndexEmbedder,
  type IndexState,
  knownProbe,
  probeOf,
  requireWidth,
  writtenModel,
} from './index-model.js';
import { readProbe, requireSameModel } from './same-model.js';
import {
  appended,
  dimensionsOf,
  inBlocks,
  inForm,
  keepRows,
  requireLengths,
  type StoreOptions,
  stored,
  type VectorStore,
  vectorTensors,
} from './vector-store.js';

export interface LoadIndexOptions extends RemoteOptions {
  /**
   * The model, or function, that embeds texts which are added or searched for. `load` rejects a model other than the
   * one the index was made with; the same model with another weight type or from another place is accepted.
   */
  embedder?: IndexEmbedder;
  /**
   * The width to request from the embedder, if the index stores only the leading entries of the model's vectors. `load`
   * needs it only for files that heed before 0.3.0 wrote.
   */
  dimensions?: number;
  /** For `load` only: stops the call, which rejects with the signal's reason. */
  signal?: SignalLike;
}

export interface AddOptions {
  /**
   * A unique integer from 0 to 2^53 - 1 per text. Default: successive integers after the largest id so far, starting at
   * 0.
   */
  ids?: readonly number[];
  /** Stops the call, which rejects with the signal's reason and leaves the index unchanged. */
  signal?: SignalLike;
}

interface StoredTensor {
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

/** A folder with an index, or its file: bytes, a Blob or File, or a path or URL ending in `.safetensors`. */
export type IndexSource = ModelSource | ArrayBufferLike | ArrayBufferView | BlobLike;

const loadSchema = {
  embedder: optional(embedderOption, null),
  dimensions: optional(size, null),
  signal,
  ...remoteSchema,
} satisfies Schema<LoadIndexOptions>;

const FILE = 'index.safetensors';

/** Splits a source into the index's folder and the name of its file there. */
function splitSource(source: IndexSource): [folder: ModelSource, path: string] {
  const bytes = guarded('source', () => bytesOf(source) ?? (isBlob(source) ? source : null));
  if (bytes) return [{ [FILE]: bytes }, FILE];
  const address = typeof source === 'string' ? source : guarded('source', () => (source as UrlLike | null)?.href);
  // Matches the folder, the file name and the query, which applies to all files of the folder.
  const [, folder = './', path, query = ''] =
    /^(.*[/\\])?([^/\\?#]+\.safetensors)(\?[^#]*)?$/.exec(address ?? '') ?? [];
  return path === undefined ? [source as ModelSource, FILE] : [folder + query, path];
}

/** Reads an index, with its vectors in a new store. */
export async function readIndex(
  source: IndexSource,
  options: LoadIndexOptions,
  newStore: (options: StoreOptions) => VectorStore,
  hub: HubOptions,
): Promise<IndexState> {
  const { integrity: digests, embedder, dimensions, ...remote } = readOptions('TextIndex.load', loadSchema, options);
  const integrity = new Integrity(digests);
  const [outer, path] = splitSource(source);
  return withFolder(outer, { ...remote, hub, integrity }, async (folder, signal) => {
    const state = await readState(folder, path, newStore, signal);
    try {
      integrity.requireAllFound();
      if (embedder) await setEmbedder(state, path, embedder, dimensions, signal);
      await folder.complete?.(signal);
      return state;
    } catch (error) {
      state.store.dispose();
      throw error;
    }
  });
}

/**
 * Attaches the model that embeds texts to an index that was read from `file`, after checking that it made the vectors.
 */
export async function setEmbedder(
  state: IndexState,
  file: string,
  embedder: IndexEmbedder,
  dimensions: number | null,
  signal?: SignalLike,
): Promise<void> {
  const { store, probe: saved } = state;
  const own = await probeOf(embedder, state.prompt, signal);
  if (saved) requireSameModel(file, saved, own, store.options.similarity);
  const width = dimensionsOf(store) || null;
  const asked = dimensions ?? (saved && width);
  requireWidth(asked ?? own.document.length, width);
  state.embedder = embedder;
  state.dimensions = asked === own.document.length ? null : asked;
  state.probe ??= own;
}

async function readState(
  folder: ModelFolder,
  path: string,
  newStore: (options: StoreOptions) => VectorStore,
  signal: SignalLike,
): Promise<IndexState> {
  const { name, metadata, tensors } = await readFile(folder, path, signal);
  const { heed_index: version = '1', prompt = null, next_id: next = '0', similarity = 'cosine' } = metadata;
  if (version !== '1' && version !== '2')
    throw invalidFile(name, 'an index of version 1 or 2', `version ${version.slice(0, 20)}`);
  if (similarity !== 'cosine' && similarity !== 'dot')
    throw invalidFile(name, "'cosine' or 'dot' in the metadata's similarity", `'${similarity.slice(0, 20)}'`);
  const texts = tensors.has('texts') ? storedTexts(tensors, name) : await linesOf(folder, signal);
  const count = texts.length;
  const vectors = tensors.get('vectors');
  const scales = tensors.get('vectors_scale');
  const bits = vectors?.dtype === 'U8';
  const isFloat = vectors?.dtype === 'F32';
  const fits =
    vectors?.shape.length === 2 &&
    vectors.shape[0] === count &&
    (count === 0 || vectors.shape[1]! > 0) &&
    (isFloat ||
      (bits && similarity === 'cosine') ||
      (vectors.dtype === 'I8' && scales?.dtype === 'F32' && scales.bytes.length === 4 * count));
  if (!fits) {
    const expected = `int8 'vectors' [${count}, width] with 'vectors_scale' [${count}, 1], one row per text`;
    const got = [vectors, scales].map((tensor) => (tensor ? `${tensor.dtype} ${formatShape(tensor.shape)}` : 'none'));
    throw invalidFile(name, expected, got.join(' and '));
  }
  const ids = storedIds(tensors.get('ids'), count, name);
  if (!/^\d{1,16}$/.test(next) || Number(next) > 2 ** 53)
    throw invalidFile(name, "an integer from 0 to 2^53 in the metadata's next_id", next.slice(0, 20));
  const { bytes } = vectors;
  const data = bits ? bytes : isFloat ? floatsOf(bytes) : new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  const rows: Rows = { data, count, width: count > 0 ? vectors.shape[1]! : 0, bits };
  if (isFloat) requireLengths(`${name}: tensor 'vectors'`, normsOf(data, rows.width), similarity, 'INVALID_FILE');
  if (!isFloat && scales && similarity === 'dot') {
    rows.scales = floatsOf(scales.bytes);
    requireLengths(`${name}: tensor 'vectors_scale'`, rows.scales, similarity, 'INVALID_FILE');
  }
  const store = newStore({ output: isFloat ? 'float32' : bits ? 'binary' : null, similarity });
  const probe = readProbe(tensors.get('probe'), metadata, name);
  if (count > 0) store.append(await inBlocks(rows, (block) => stored(block, store.options), makeYield(signal)));
  const state: IndexState = {
    texts,
    store,
    ids: null,
    nextId: count,
    embedder: null,
    dimensions: null,
    prompt,
    probe,
  };
  setIds(state, ids);
  state.nextId = Math.max(state.nextId, Number(next));
  return state;
}

const floatsOf = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer);

async function readFile(folder: ModelFolder, path: string, signal: SignalLike) {
  const file = await folder.open(path, { required: true, signal });
  const reader = new ByteReader(file);
  try {
    const [, json] = await readHeader(reader);
    const tensors = new Map<string, StoredTensor>();
    for (const entry of parseHeader(json, file.name, file.size)) {
      const { name, dtype, shape, begin, end } = entry;
      tensors.set(name, { dtype, shape, bytes: await reader.take(end - begin, entry) });
    }
    await reader.expectEnd();
    return { name: file.name, metadata: metadataOf(json, file.name), tensors };
  } finally {
    await reader.close();
  }
}

async function linesOf(folder: ModelFolder, signal: SignalLike): Promise<string[]> {
  const words = await readAll(await folder.open('words.txt', { required: true, signal }));
  const texts = new TextDecoder().decode(words).split(/\r?\n/);
  if (texts.at(-1) === '') texts.pop();
  return texts;
}

function storedTexts(tensors: Map<string, StoredTensor>, file: string): string[] {
  const { bytes } = tensors.get('texts')!;
  const lengths = tensors.get('text_lengths');
  if (lengths?.dtype !== 'U32' || lengths.shape.length !== 1)
    throw invalidFile(
      file,
      "the lengths of its texts, U32 [N], in 'text_lengths'",
      lengths ? `${lengths.dtype} ${formatShape(lengths.shape)}` : 'none',
    );
  const view = new DataView(lengths.bytes.buffer, lengths.bytes.byteOffset);
  const wrong = (got: string): HeedError =>
    invalidFile(`${file}: tensor 'texts'`, 'texts in UTF-8 of the given lengths', got);
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let text = '';
  let used = 0; // units of `text` consumed
  let at = 0;
  // Decode in blocks, because a single string cannot hold all texts.
  const fill = () => {
    const block = bytes.subarray(at, at + 65536);
    at += block.length;
    try {
      text = text.slice(used) + decoder.decode(block, { stream: at < bytes.length });
    } catch {
      throw wrong('other bytes');
    }
    used = 0;
  };
  const texts = Array.from({ length: lengths.shape[0]! }, (_, n) => {
    const length = view.getUint32(4 * n, true);
    while (text.length - used < length) {
      if (at === bytes.length) throw wrong(`too few for text ${n}`);
      fill();
    }
    used += length;
    return text.slice(used - length, used);
  });
  if (used < text.length || at < bytes.length) throw wrong('more than they take');
  return texts;
}

/** Reads the ids; null if they equal the row numbers. */
function storedIds(tensor: StoredTensor | undefined, count: number, file: string): Float64Array | null {
  if (!tensor) return null;
  const { dtype, bytes } = tensor;
  const fits = dtype === 'F64' && bytes.length === 8 * count;
  const ids = fits ? new Float64Array(bytes.slice().buffer) : new Float64Array();
  if (fits && ids.every((id) => Number.isSafeInteger(id) && id >= 0) && new Set(ids).size === count) return ids;
  throw invalidFile(
    `${file}: tensor 'ids'`,
    `${count} different integers from 0 to 2^53 - 1`,
    fits ? 'others' : `${dtype} ${formatShape(tensor.shape)}`,
  );
}

const readIds = listOf(natural, 'an array of integers');

/** Caches the ids of an index as a set. */
const known = new WeakMap<IndexState, Set<number>>();

function knownIds(state: IndexState): Set<number> {
  const ids = known.get(state) ?? new Set(rowIds(state));
  known.set(state, ids);
  return ids;
}

/** The id of each row. */
function rowIds({ ids, store: { count } }: IndexState): Float64Array {
  return ids?.subarray(0, count) ?? Float64Array.from({ length: count }, (_, row) => row);
}

function setIds(state: IndexState, ids: Float64Array | null): void {
  state.ids = ids;
  for (const id of ids ?? []) state.nextId = Math.max(state.nextId, id + 1);
}

/** Adds texts and their vectors; see `TextIndex.add`. If `given` is null, the index embeds the texts. */
export async function addTexts(
  state: IndexState,
  lines: string[],
  given: Rows | null,
  options?: AddOptions,
): Promise<number[]> {
  const schema = { ids: optional(readIds, null), signal };
  const { ids: wanted, signal: stop } = readOptions('add', schema, options);
  const { store } = state;
  const pause = makeYield(stop);
  if (wanted) requireNew(state, wanted, lines.length);
  if (!given) await knownProbe(state, stop);
  const rows = given ?? (await embedFor(state, 'document', lines, { signal: stop }));
  const more = await inBlocks(rows, (block, first) => inForm(store, block, first), pause);
  if (lines.length === 0) return [];
  if (!wanted && state.nextId > Number.MAX_SAFE_INTEGER - lines.length + 1)
    throw invalid('ids', 'an id for each text, as the largest is in use', 'none');
  const ids = wanted ?? lines.map((_, i) => state.nextId + i);
  guarded('vectors', () => {
    // Ids are stored only once they differ from the row numbers.
    const stored =
      wanted || state.ids ? appended(state.ids ?? rowIds(state), store.count, Float64Array.from(ids)) : null;
    store.append(more);
    state.ids = stored;
  });
  for (const line of lines) state.texts.push(line);
  for (const id of ids) {
    state.nextId = Math.max(state.nextId, id + 1);
    known.get(state)?.add(id);
  }
  return ids;
}

function requireNew(state: IndexState, ids: number[], count: number): void {
  if (ids.length !== count) throw invalid('ids', `${count}, one per text`, `${ids.length}`);
  const used = knownIds(state);
  const seen = new Set<number>();
  ids.forEach((id, i) => {
    if (used.has(id) || seen.has(id)) throw invalid(`ids[${i}]`, 'an id that is not in use', `${id}`);
    seen.add(id);
  });
}

/** Removes texts by their ids; see `TextIndex.remove`. */
export function removeTexts(state: IndexState, given: readonly number[]): void {
  const removed = new Set(readIds(given, 'ids'));
  const ids = rowIds(state);
  const kept = Uint32Array.from(ids.keys()).filter((row) => !removed.has(ids[row]!));
  if (ids.length - kept.length < removed.size) {
    const all = knownIds(state);
    const unknown = [...removed].find((id) => !all.has(id));
    throw invalid('ids', 'ids of texts in the index', `${unknown}`, 'NOT_FOUND');
  }
  const { store, texts } = state;
  store.keep(kept);
  state.ids = keepRows(ids, 1, kept);
  kept.forEach((row, at) => {
    texts[at] = texts[row]!;
  });
  texts.length = kept.length;
  for (const id of removed) known.get(state)?.delete(id);
  // An empty index may next get vectors of another model.
  if (store.count === 0 && !state.embedder) Object.assign(state, { probe: null, prompt: null });
}

/** The file of an index; see `TextIndex.save`. */
export async function saveIndex(state: IndexState): Promise<Uint8Array<ArrayBuffer>> {
  await knownProbe(state);
  const { texts, store, ids, nextId } = state;
  const count = texts.length;
  return guarded('save', () => {
    const bytes = encoded(texts);
    const lengths = Uint32Array.from(texts, ({ length }) => length);
    const model = writtenModel(state);
    // Sorted by decreasing alignment.
    const tensors = [
      ...(ids ? [{ name: 'ids', dtype: 'F64', shape: [count], data: rowIds(state) }] : []),
      ...model.tensors,
      { name: 'text_lengths', dtype: 'U32', shape: [count], data: lengths as ArrayBufferView },
      ...vectorTensors(store),
      { name: 'texts', dtype: 'U8', shape: [bytes.length], data: bytes },
    ];
    return writeSafetensors(tensors, { next_id: `${nextId}`, ...model.metadata });
  });
}

/** Encodes the texts in UTF-8, concatenated, in blocks, because a single string cannot hold all of them. */
function encoded(texts: readonly string[]): Uint8Array {
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < texts.length; at += 1024)
    blocks.push(new TextEncoder().encode(texts.slice(at, at + 1024).join('')));
  return concatenate(Uint8Array, blocks);
}
