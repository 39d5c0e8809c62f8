/** Loads and changes a TextIndex. text-index-file.ts has the format of its file. */
import { guarded, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { HubOptions } from '../base/hub-options.js';
import { flag, listOf, natural, optional, readOptions, type Schema, signal, size } from '../base/options.js';
import type { SignalLike, UrlLike } from '../base/platform.js';
import { bytesOf, isBlob } from '../io/bytes.js';
import { Integrity } from '../io/integrity.js';
import { type ModelSource, withFolder } from '../io/source.js';
import { remoteSchema } from '../models/call-options.js';
import type { Rows } from '../models/quantized.js';
import { forget, knownIds, remember, rowIds } from './index-ids.js';
import { addMetadata, metadataOption, newMetadata } from './index-metadata.js';
import {
  embedderOption,
  embedRows,
  type IndexEmbedder,
  type IndexState,
  probeOf,
  requireWidth,
} from './index-model.js';
import { requireSameModel } from './same-model.js';
import { readState } from './text-index-file.js';
import type { AddOptions, IndexSource, LoadIndexOptions } from './text-index-options.js';
import {
  appended,
  dimensionsOf,
  inBlocks,
  inForm,
  keepRows,
  type StoreOptions,
  type VectorStore,
} from './vector-store.js';

export { saveIndex } from './text-index-file.js';

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

const readIds = listOf(natural, 'an array of integers');
const addSchema = {
  ids: optional(readIds, null),
  replace: optional(flag, false),
  metadata: optional(metadataOption, null),
  signal,
} satisfies Schema<AddOptions>;

/** Adds texts and their vectors; see `TextIndex.add`. If `given` is null, the index embeds the texts. */
export async function addTexts(
  state: IndexState,
  lines: string[],
  given: Rows | null,
  options?: AddOptions,
): Promise<number[]> {
  const { ids: wanted, replace, metadata, signal: stop } = readOptions('add', addSchema, options);
  const { store } = state;
  if (wanted) requireFree(state, wanted, lines.length, replace);
  else if (replace) throw invalid('add.replace', '`ids`, which say what to replace', 'no `ids`');
  const values = newMetadata(state, metadata, lines.length);
  const more = given
    ? await inBlocks(given, (block, first) => inForm(store, block, first), makeYield(stop))
    : await embedRows(state, lines, { signal: stop });
  if (lines.length === 0) return [];
  if (!wanted && state.nextId > Number.MAX_SAFE_INTEGER - lines.length + 1)
    throw invalid('ids', 'an id for each text, as the largest possible id is in use', 'undefined');
  const ids = wanted ?? lines.map((_, i) => state.nextId + i);
  const before = store.count;
  const kept = replace ? rowsAfterReplacement(state, new Set(ids), lines.length) : null;
  guarded('vectors', () => {
    // Ids are stored only once they differ from the row numbers.
    const stored = wanted || state.ids ? appended(state.ids ?? rowIds(state), before, Float64Array.from(ids)) : null;
    store.append(more);
    if (kept) keepOrUndo(store, kept, before);
    state.ids = stored;
  });
  addMetadata(state, values);
  for (const line of lines) state.texts.push(line);
  if (kept) keepTexts(state, kept);
  for (const id of ids) {
    state.nextId = Math.max(state.nextId, id + 1);
    remember(state, id);
  }
  return ids;
}

function requireFree(state: IndexState, ids: number[], count: number, replace: boolean): void {
  if (ids.length !== count) throw invalid('ids', `${count}, one per text`, `${ids.length}`);
  const used = knownIds(state);
  const seen = new Set<number>();
  ids.forEach((id, i) => {
    if (seen.has(id)) throw invalid(`ids[${i}]`, 'an id that is given only once', `${id}`);
    if (!replace && used.has(id))
      throw invalid(`ids[${i}]`, 'an id that is not in use', `${id}`, 'INVALID_ARGUMENT', {
        hint: 'replace: true replaces the text with this id',
      });
    seen.add(id);
  });
}

/** The rows that remain after `count` new rows have replaced those with `ids`; null: all. */
function rowsAfterReplacement(state: IndexState, ids: Set<number>, count: number): Uint32Array | null {
  const old = rowIds(state);
  const rows = Array.from(old.keys()).filter((row) => !ids.has(old[row]!));
  if (rows.length === old.length) return null;
  for (let i = 0; i < count; i++) rows.push(old.length + i);
  return Uint32Array.from(rows);
}

/** Removes all rows of the store except `kept`. If that fails, removes those after the first `before` instead. */
function keepOrUndo(store: VectorStore, kept: Uint32Array, before: number): void {
  try {
    store.keep(kept);
  } catch (error) {
    store.keep(Uint32Array.from({ length: before }, (_, row) => row));
    throw error;
  }
}

/** Removes the texts of rows that the store no longer has, with their ids and metadata. */
function keepTexts(state: IndexState, kept: Uint32Array): void {
  const { ids, texts, metadata } = state;
  if (ids) state.ids = keepRows(ids, 1, kept);
  for (const list of metadata ? [texts, metadata] : [texts]) {
    kept.forEach((row, at) => {
      list[at] = list[row]!;
    });
    list.length = kept.length;
  }
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
  const { store } = state;
  store.keep(kept);
  state.ids = ids;
  keepTexts(state, kept);
  for (const id of removed) forget(state, id);
  // An empty index may next get vectors of another model.
  if (store.count === 0 && !state.embedder) Object.assign(state, { probe: null, prompt: null, metadata: null });
}
