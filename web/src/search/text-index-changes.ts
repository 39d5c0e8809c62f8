/** Loads and changes a TextIndex. text-index-file.ts has the format of its file. */
import { guarded, invalid } from '../base/error.js';
import { makeYield, STEP } from '../base/event-loop.js';
import type { HubOptions } from '../base/hub-options.js';
import { optional, readOptions, type Schema, signal, size } from '../base/options.js';
import type { SignalLike, UrlLike } from '../base/platform.js';
import { bytesOf, isBlob } from '../io/bytes.js';
import { Integrity } from '../io/integrity.js';
import { type ModelSource, withFolder } from '../io/source.js';
import { remoteSchema } from '../models/call-options.js';
import type { Rows } from '../models/quantized.js';
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
import type { CheckedAdd, IndexSource, LoadIndexOptions, TextFilter } from './text-index-options.js';
import { requireMetadata, type TextRows } from './text-rows.js';
import { dimensionsOf, inBlocks, inForm, type StoreOptions, type VectorStore } from './vector-store.js';

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

/** Adds texts and their vectors; see `TextIndex.add`. If `given` is null, the index embeds the texts. */
export async function addTexts(
  state: IndexState,
  lines: string[],
  given: Rows | null,
  { ids: wanted, replace, metadata, signal: stop }: CheckedAdd,
): Promise<number[]> {
  const { rows, store } = state;
  if (wanted) requireFree(state, wanted, lines.length, replace);
  else if (replace) throw invalid('add.replace', '`ids`, which say what to replace', 'no `ids`');
  requireMetadata(metadata, lines.length);
  const more = given
    ? await inBlocks(given, (block, first) => inForm(store, block, first), makeYield(stop))
    : await embedRows(state, lines, { signal: stop });
  if (lines.length === 0) return [];
  const { nextId } = rows;
  if (!wanted && nextId > Number.MAX_SAFE_INTEGER - lines.length + 1)
    throw invalid('ids', 'an id for each text, as the largest possible id is in use', 'undefined');
  const ids = wanted ?? lines.map((_, i) => nextId + i);
  const replaced = replace ? ids.map((id) => rows.rowOf(id)).filter((row) => row >= 0) : [];
  guarded('vectors', () => store.append(more));
  rows.append(lines, ids, metadata);
  rows.remove(replaced, null);
  try {
    rows.removeUnused(store);
  } catch {
    // The texts have been added. The unused rows only take memory, and a later call tries again.
  }
  return ids;
}

function requireFree({ rows }: IndexState, ids: number[], count: number, replace: boolean): void {
  if (ids.length !== count) throw invalid('ids', `${count}, one per text`, `${ids.length}`);
  const seen = new Set<number>();
  ids.forEach((id, i) => {
    if (seen.has(id)) throw invalid(`ids[${i}]`, 'an id that is given only once', `${id}`);
    if (!replace && rows.rowOf(id) >= 0)
      throw invalid(`ids[${i}]`, 'an id that is not in use', `${id}`, 'INVALID_ARGUMENT', {
        hint: 'replace: true replaces the text with this id',
      });
    seen.add(id);
  });
}

/** The row of the text with this id. */
export function requireRow(rows: TextRows, id: number): number {
  const row = rows.rowOf(id);
  if (row < 0) throw invalid('ids', 'ids of texts in the index', `${id}`, 'NOT_FOUND');
  return row;
}

/** Removes texts by their ids, or those that a function chooses; see `TextIndex.remove`. */
export async function removeTexts(state: IndexState, given: readonly number[] | TextFilter): Promise<void> {
  const { rows, store } = state;
  const pause = makeYield(undefined);
  const found = new Set<number>();
  if (typeof given === 'function') {
    const used = rows.usedRows();
    for (let i = 0; i < rows.size; i++) {
      if (i % STEP === 0) await pause();
      const row = used?.[i] ?? i;
      if (given(rows.at(row))) found.add(row);
    }
  } else {
    for (const [i, id] of given.entries()) {
      if (i % STEP === 0) await pause();
      found.add(requireRow(rows, id));
    }
  }
  void store.count; // throws after dispose()
  rows.remove([...found], store);
  // An empty index may next get vectors of another model.
  if (rows.size === 0 && !state.embedder) Object.assign(state, { probe: null, prompt: null });
}
