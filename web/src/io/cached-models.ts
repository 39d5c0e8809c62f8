/** Lists and removes the models that the cache keeps. Loaded when it is used. */
import { describe, guarded, invalid } from '../error.js';
import { cacheOption } from '../hub-options.js';
import { readOptions, type Schema } from '../options.js';
import type { UrlLike } from '../platform.js';
import { type CacheOption, type Kept, openStore } from './cache.js';

export interface CacheOptions {
  /** Which cache: as the option `cache` of the loads that filled it. Default true. */
  cache?: CacheOption;
}

export interface CachedModel {
  /** The id of a model of a hub, or the URL of a folder or of a packed file. */
  source: string;
  /** The host and the revision of a hub's model; null for others. */
  host: string | null;
  revision: string | null;
  bytes: number;
  /** The files that were kept whole. */
  files: { path: string; bytes: number }[];
}

const schema = { cache: cacheOption } satisfies Schema<CacheOptions>;

async function opened(owner: string, options: CacheOptions | undefined) {
  const { cache = true } = readOptions(owner, schema, options);
  if (cache === false) throw invalid(`${owner}.cache`, 'true or a name', 'false');
  return openStore(cache);
}

/** As in cache-functions.ts. */
export async function listCache(options?: CacheOptions): Promise<CachedModel[]> {
  const store = await opened('listCache', options);
  const models = new Map<string, CachedModel>();
  for (const kept of (await store?.list()) ?? []) {
    if (kept.bytes === 0) continue;
    const { folder, ...model } = modelOf(kept);
    const known = models.get(folder) ?? { ...model, bytes: 0, files: [] };
    models.set(folder, known);
    known.bytes += kept.bytes;
    known.files.push({ path: kept.path, bytes: kept.bytes });
  }
  const compare = (a: string, b: string) => (a < b ? -1 : Number(a > b));
  for (const { files } of models.values()) files.sort((a, b) => compare(a.path, b.path));
  return [...models.entries()].sort(([a], [b]) => compare(a, b)).map(([, model]) => model);
}

/** As in cache-functions.ts. */
export async function clearCache(source?: string | UrlLike, options?: CacheOptions): Promise<number> {
  const wanted = source === undefined ? null : wantedSource(source);
  const store = await opened('clearCache', options);
  if (!store) return 0;
  let bytes = 0;
  for (const kept of await store.list()) {
    const { source: own, folder } = modelOf(kept);
    if (wanted !== null && wanted !== own && wanted !== folder) continue;
    bytes += kept.bytes;
    await kept.remove();
  }
  if (wanted === null) await store.clear();
  return bytes;
}

function wantedSource(source: unknown): string {
  const given = guarded('source', () => (typeof source === 'string' ? source : (source as UrlLike | null)?.href));
  if (typeof given !== 'string' || given === '') throw invalid('source', "a model's id or URL", describe(source));
  const page = globalThis.location?.href;
  // A hub's id stays; a folder's URL ends with a slash.
  if (!/^[a-z]+:/i.test(given) && (/^[\w-][\w.-]*\/[\w-][\w.-]*$/.test(given) || !URL.canParse(given, page)))
    return given;
  const url = new URL(given, page);
  url.hash = '';
  if (!/\.safetensors$|\/$/.test(url.pathname)) url.pathname += '/';
  return url.href;
}

/** The model that a file belongs to. `folder`: its URL, with its query. */
function modelOf({ url: address, path }: Kept) {
  const url = new URL(address);
  url.hash = '';
  const below = new URL(path, url.origin).pathname; // begins with a slash
  if (url.pathname.endsWith(below)) url.pathname = url.pathname.slice(0, 1 - below.length);
  const [, base = '', id, revision = ''] =
    /^(.*\/)([\w.-]+\/[\w.-]+)\/resolve\/([^/]+)\/$/.exec(url.origin + url.pathname) ?? [];
  return id === undefined
    ? { folder: url.href, source: url.href, host: null, revision: null }
    : { folder: url.href, source: id, host: base.slice(0, -1), revision: decodeURIComponent(revision) };
}
