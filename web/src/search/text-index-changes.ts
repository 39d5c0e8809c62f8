/** Loads, changes and saves a TextIndex. text-index-file.ts has the format of its file. */
import { describe, guarded, invalid } from '../base/error.js';
import { makeYield, STEP } from '../base/event-loop.js';
import { flag, optional, readOptions, type Schema, signal, size } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike, UrlLike } from '../base/platform.js';
import { bytesOf, isBlob } from '../io/bytes.js';
import { Integrity } from '../io/integrity.js';
import { type ModelSource, withFolder } from '../io/source.js';
import { remoteSchema } from '../models/call-options.js';
import type { PretrainedModel } from '../models/model.js';
import type { Rows } from '../models/quantized.js';
import { embedRows, probeOf } from './index-embedding.js';
import { embedderOption, type IndexEmbedder, type IndexState, requireOwnWidth } from './index-model.js';
import { requireSameModel } from './same-model.js';
import { dimensionsOf, type StoreOptions } from './stored-vectors.js';
import { readState } from './text-index-file.js';
import type { CheckedAdd, CheckedEmbedding, IndexSource, LoadIndexOptions } from './text-index-options.js';
import type { Items, TextFilter, TextId, TextRows } from './text-rows.js';
import { type Store, VectorStore } from './vector-store.js';

export { saveIndex } from './text-index-file.js';

const loadSchema = {
  embedder: optional(embedderOption, null),
  dimensions: optional(size, null),
  worker: optional(flag, false),
  signal,
  ...remoteSchema,
} satisfies Schema<LoadIndexOptions<boolean>>;

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

/** A model in one worker, which can also have the vectors of indexes. */
interface WithStores {
  openStore(options: StoreOptions): Promise<Store>;
}

/** Returns a function that opens a store in the worker of a model. `name`: the option that asks for it. */
export function workerStores(embedder: IndexEmbedder | null, name: string): (options: StoreOptions) => Promise<Store> {
  const model = embedder as Partial<WithStores & PretrainedModel> | null;
  if (typeof model?.openStore === 'function') return (options) => model.openStore!(options);
  const got = !model
    ? 'no `embedder`'
    : typeof model === 'function'
      ? 'a function'
      : (model.workers?.count ?? 0) > 0
        ? 'a pool of workers'
        : 'a model without a worker';
  const expected = 'a model that was loaded with `worker: true`, as its worker has the vectors';
  const hint = 'Load it by `fromPretrained(source, { worker: true })`';
  throw invalid(name, expected, got, 'INVALID_ARGUMENT', { hint });
}

/** Reads an index, with its vectors in the memory of a runtime or, with `worker`, in the model's worker. */
export async function readIndex(
  source: IndexSource,
  options: LoadIndexOptions<boolean>,
  runtime: Runtime,
): Promise<IndexState> {
  const {
    integrity: digests,
    embedder,
    dimensions,
    worker,
    ...remote
  } = readOptions('TextIndex.load', loadSchema, options);
  const open = worker
    ? workerStores(embedder, 'TextIndex.load.worker')
    : async (form: StoreOptions) => new VectorStore(runtime, form);
  const integrity = new Integrity(digests);
  const [outer, path] = splitSource(source);
  return withFolder(outer, { ...remote, hub: runtime.hub, integrity }, async (folder, signal) => {
    let store: Store | null = null;
    const newStore = async (form: StoreOptions) => {
      store = await open(form);
      return store;
    };
    try {
      const state = await readState(folder, path, newStore, signal);
      integrity.requireAllFound();
      if (embedder) await setEmbedder(state, path, embedder, dimensions, signal);
      await folder.complete?.(signal);
      return state;
    } catch (error) {
      (store as Store | null)?.dispose();
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
  requireOwnWidth(asked ?? own.document.length, width);
  state.embedder = embedder;
  state.dimensions = asked === own.document.length ? null : asked;
  state.probe ??= own;
}

/** Adds texts and their vectors; see `TextIndex.add`. If `given` is null, the index embeds the texts. */
export async function addTexts(
  state: IndexState,
  { texts, ids: wanted, metadata }: Items,
  given: Rows | null,
  { replace, signal: stop }: Pick<CheckedAdd, 'replace' | 'signal'>,
): Promise<TextId[]> {
  const { rows, store } = state;
  if (!wanted && replace) throw invalid('add.replace', '`ids`, which say what to replace', 'no `ids`');
  const ids = rows.idsFor(wanted, texts.length, replace);
  const append = given ? await store.prepare(given, stop) : await embedRows(state, texts, { signal: stop });
  if (texts.length === 0) return [];
  const replaced = replace ? ids.map((id) => rows.rowOf(id)).filter((row) => row >= 0) : [];
  await store.inTurn(async () => {
    // Waits for a worker only: without one, no search may come between.
    const appending = append();
    if (appending) await appending;
    rows.append(texts, ids, metadata);
    rows.remove(replaced);
    await rows.removeUnused(store);
  });
  return ids;
}

/** The number of texts per batch and worker of the model: some tenths of a second's work. */
const BATCH = 64;

/**
 * Adds texts in batches, and skips those that the index has; see `EmbeddedIndexOptions.into`. `inTurn` runs a batch
 * after all calls so far that change or save the index.
 */
export async function fillIndex(
  state: IndexState,
  embedder: IndexEmbedder,
  { texts, ids: given, metadata }: Items,
  { onProgress, signal: stop, ...form }: CheckedEmbedding,
  inTurn: (call: () => Promise<void>) => Promise<void>,
): Promise<void> {
  for (const [name, value] of Object.entries(form))
    if (value !== null)
      throw invalid(`TextIndex.of.${name}`, 'undefined, because the index `into` has its own', describe(value));
  const { rows } = state;
  const wanted = Array.from(texts, (_, i) => given?.[i] ?? i);
  rows.idsFor(wanted, texts.length, true); // throws for ids that are given twice
  await inTurn(async () => {
    if (state.embedder !== embedder) await setEmbedder(state, 'TextIndex.of.into', embedder, null, stop);
  });
  const size = BATCH * Math.max(1, (embedder as Partial<PretrainedModel>).workers?.count ?? 1);
  const pause = makeYield(stop);
  for (let next = 0; next < texts.length; ) {
    await inTurn(async () => {
      const batch: number[] = [];
      for (; next < texts.length && batch.length < size; next++) {
        if (next % STEP === 0) await pause();
        const row = rows.rowOf(wanted[next]!);
        if (row < 0 || rows.textAt(row).text !== texts[next]) batch.push(next);
        else if (metadata) rows.setMetadata(row, metadata[next]);
      }
      const each = <T>(list: readonly T[]) => batch.map((i) => list[i]!);
      const items = { texts: each(texts), ids: each(wanted), metadata: metadata && each(metadata) };
      if (batch.length > 0) await addTexts(state, items, null, { replace: true, signal: stop });
    });
    onProgress?.({ done: next, total: texts.length });
    await pause();
  }
}

/** The row of the text with this id. */
export function requireRow(rows: TextRows, id: TextId): number {
  const row = rows.rowOf(id);
  if (row < 0) throw invalid('ids', 'ids of texts in the index', describe(id), 'NOT_FOUND');
  return row;
}

/** Removes texts by their ids, or those that a function chooses; see `TextIndex.remove`. */
export async function removeTexts(state: IndexState, given: readonly TextId[] | TextFilter): Promise<void> {
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
  await store.inTurn(() => {
    rows.remove([...found]);
    return rows.removeUnused(store);
  });
  // An empty index may next get vectors of another model.
  if (rows.size === 0 && !state.embedder) Object.assign(state, { probe: null, prompt: null });
}
