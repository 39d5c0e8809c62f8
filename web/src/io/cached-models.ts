/** Lists and removes cached models. Loaded on first use. */
import { describe, guarded, HeedError, invalid } from '../base/error.js';
import { abortable } from '../base/event-loop.js';
import { cacheOption } from '../base/hub-options.js';
import { readOptions, type Schema, signal } from '../base/options.js';
import type { SignalLike, UrlLike } from '../base/platform.js';
import { type CacheOption, openStore, type Removed, type Store } from './cache-stores.js';
import { HUB_ID } from './hub.js';
import { urlPath } from './paths.js';

/** Options of `listCache` and `clearCache`. */
export interface CacheOptions {
  /** The cache, as in the option `cache` of the loads that filled it. Default true. */
  cache?: CacheOption | undefined;
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

/** A model in the cache, as `listCache` lists it. */
export interface CachedModel {
  /** Hub id of the model, or URL of its folder or packed file. */
  source: string;
  /** Host of a hub's model; null for other models. */
  remoteHost: string | null;
  /** Revision of a hub's model; null for other models. */
  revision: string | null;
  /** Size of the cached files. */
  bytes: number;
  /** The cached files: paths below the folder, and sizes. */
  files: { path: string; bytes: number }[];
}

const schema = { cache: cacheOption, signal } satisfies Schema<CacheOptions>;

/** Runs `body` with the store, if it can be opened, until the signal aborts. */
async function withStore<T>(
  owner: string,
  options: CacheOptions | undefined,
  body: (store: Store, signal: SignalLike | undefined) => Promise<T>,
): Promise<T | undefined> {
  const { cache = true, signal } = readOptions(owner, schema, options);
  if (cache === false) throw invalid(`${owner}.cache`, 'true or a name', 'false');
  const run = async () => {
    const store = await openStore(cache).catch((cause) => {
      const problem = `the cache cannot be opened, as in a sandboxed frame (${describe(cause)})`;
      throw new HeedError('UNSUPPORTED', `${owner}: ${problem}`, { cause });
    });
    return store ? body(store, signal) : undefined;
  };
  signal?.throwIfAborted();
  return abortable(run(), signal);
}

/** See api/on-demand.ts. */
export async function listCache(options?: CacheOptions): Promise<CachedModel[]> {
  const models = new Map<string, CachedModel>();
  await withStore('listCache', options, async (store) => {
    for (const record of (await store.records()).values())
      for (const [path, file] of Object.entries(record)) {
        if (!file?.key) continue;
        const { folder, ...model } = modelOf(file.url, path);
        const known = models.get(folder) ?? { ...model, bytes: 0, files: [] };
        models.set(folder, known);
        const bytes = file.bytes ?? 0;
        known.bytes += bytes;
        known.files.push({ path, bytes });
      }
  });
  const compare = (a: string, b: string) => (a < b ? -1 : Number(a > b));
  for (const { files } of models.values()) files.sort((a, b) => compare(a.path, b.path));
  return [...models.entries()].sort(([a], [b]) => compare(a, b)).map(([, model]) => model);
}

/** See api/on-demand.ts. */
export const clearCache = async (source?: string | UrlLike, options?: CacheOptions): Promise<number> =>
  (await removeCached(source, options)).bytes;

/** As `clearCache`. Resolves to the number of files and of bytes removed. */
export async function removeCached(source?: string | UrlLike, options?: CacheOptions): Promise<Removed> {
  const wanted = source === undefined ? null : wantedSource(source);
  const removed: Removed = { files: 0, bytes: 0 };
  await withStore('clearCache', options, async (store, signal) => {
    for (const [name, record] of await store.records()) {
      const files = Object.entries(record).flatMap(([path, file]) => (file ? [{ path, ...file }] : []));
      const models = files.map(({ url, path }) => modelOf(url, path));
      if (wanted !== null && !models.some(({ source, folder }) => wanted === source || wanted === folder)) continue;
      signal?.throwIfAborted(); // not checked within a folder, which is removed as a whole
      await store.removeRecord(name);
      for (const { key, bytes } of files) {
        if (!key) continue;
        await store.remove(key);
        removed.files++;
        removed.bytes += bytes ?? 0;
      }
    }
    signal?.throwIfAborted();
    if (wanted !== null) return;
    const { files, bytes } = await store.sweep(true);
    removed.files += files;
    removed.bytes += bytes;
  });
  return removed;
}

function wantedSource(source: unknown): string {
  const given = guarded('source', () => (typeof source === 'string' ? source : (source as UrlLike | null)?.href));
  if (typeof given !== 'string' || given === '') throw invalid('source', "a model's id or URL", describe(source));
  const page = globalThis.location?.href;
  // Hub ids are returned unchanged; URLs of folders get a trailing slash.
  if (HUB_ID.test(given) || !URL.canParse(given, page)) return given;
  const url = new URL(given, page);
  url.hash = '';
  if (!/\.safetensors$|\/$/.test(url.pathname)) url.pathname += '/';
  return url.href;
}

/** The model to which a file belongs. `folder`: the folder's URL, with its query. */
function modelOf(address: string, path: string) {
  const url = new URL(address);
  url.hash = '';
  const below = `/${urlPath(path)}`;
  if (url.pathname.endsWith(below)) url.pathname = url.pathname.slice(0, 1 - below.length);
  const [, base = '', id, revision = ''] =
    /^(.*\/)([\w.-]+\/[\w.-]+)\/resolve\/([^/]+)\/$/.exec(url.origin + url.pathname) ?? [];
  return id === undefined
    ? { folder: url.href, source: url.href, remoteHost: null, revision: null }
    : { folder: url.href, source: id, remoteHost: base.slice(0, -1), revision: decodeURIComponent(revision) };
}
