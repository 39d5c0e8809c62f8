/** Opens every kind of model source that callers may pass. The only module that combines the parts of io/. */
import { describe, guarded, type HeedError, importing, invalid } from '../base/error.js';
import { hubHost, type RuntimeHub } from '../base/hub-options.js';
import {
  type BlobLike,
  type FetchLike,
  type FileLike,
  linkedAbort,
  nodeModule,
  type SignalLike,
  type UrlLike,
} from '../base/platform.js';
import { bytesOf, isBlob } from './bytes.js';
import type { CacheOption } from './cache-stores.js';
import { folderOf, type ModelFolder, missing, type Source } from './files.js';
import { httpSource, type UrlOf, withParameter } from './http.js';
import { fetcherOf, HUB_ID, tokenFor } from './hub.js';
import { Integrity, type IntegrityOption } from './integrity.js';
import { memoryFile } from './memory.js';
import { fs, openPath, pathSource, statusOf } from './node.js';
import { packedSource } from './packed.js';
import { isInside, urlInside, urlPath } from './paths.js';

/** The content of a file: bytes, a Blob, a URL that is fetched, or, for JSON files, a string. */
export type FileBytes = ArrayBuffer | ArrayBufferView | BlobLike | UrlLike | string;

/** Files by path below their folder. All have an extension, so that the type rejects other options objects. */
export interface FilesByName {
  readonly [name: `${string}.${string}`]: FileBytes;
}

/**
 * Where a model is loaded from. A string or URL: a hub id ("org/name"), a folder, or a .safetensors file into which a
 * folder has been packed; in Node also their paths. A record: files by path below the folder, as bytes, Blobs, Files or
 * URLs, JSON files also as strings. Bytes or a Blob: those of a packed .safetensors file. An iterable of `File`s: a
 * folder from drag and drop or `<input webkitdirectory>`.
 */
export type ModelSource =
  | string
  | UrlLike
  | FilesByName
  | ArrayBufferLike
  | ArrayBufferView
  | BlobLike
  | Iterable<FileLike>;

export interface RemoteOptions {
  /** Host of models that are specified by their hub id ("org/name"). No effect on other sources. */
  remoteHost?: string | undefined;
  /** Branch, tag or commit of a model that is specified by its hub id. Default 'main'. */
  revision?: string | undefined;
  /**
   * Whether and where folders from the network are cached, see CacheOption. Default: that of `load({ hub })`, else
   * false.
   */
  cache?: CacheOption | undefined;
  /**
   * With `cache`: true asks the host whether files have changed and downloads those that have; false uses a cached
   * folder without a request. Default false.
   */
  refresh?: boolean | undefined;
  /**
   * Access token of the hub, for models that require a login. It is sent only to the hub (`remoteHost`, or the host of
   * a folder's URL), not to hosts to which that redirects. No effect on other sources. Default: that of
   * `load({ hub })`; else, for hub ids in Node, the environment variable HF_TOKEN. false sends none.
   */
  token?: string | false | undefined;
  /** Called instead of the global `fetch`, see HubOptions. */
  fetch?: FetchLike | undefined;
  /** Expected digests of files from any source. If a file differs, the load fails and nothing is cached. */
  integrity?: IntegrityOption | undefined;
}

/** The name of a packed file that is the only one of its folder. */
const PACKED = 'model.safetensors';

/** Checks and copies the source: a string, an absolute URL, or a record of files. */
function readSource(source: unknown): string | UrlLike | Record<string, FileBytes> {
  return guarded('source', () => {
    if (typeof source === 'string' && source !== '') return source;
    if (typeof source !== 'object' || source === null) throw wrongSource(describe(source));
    if (isUrl(source)) return plainUrl(source);
    if (isBlob(source) || bytesOf(source)) return { [PACKED]: source as BlobLike | ArrayBuffer };
    if (Symbol.iterator in source) return namedFiles(source as Iterable<FileLike>);
    return Object.fromEntries(
      Object.entries(source).map(([name, file]) => [name, isUrl(file) ? plainUrl(file) : file]),
    );
  });
}

/**
 * Copies a URL and makes it absolute: in some bundles, the href of `new URL('./file', import.meta.url)` is only a path.
 */
function plainUrl(source: UrlLike): UrlLike {
  const { href, protocol } = asUrl(source.href, globalThis.location?.href);
  return { href, protocol };
}

function asUrl(address: string, base?: string | URL, argument = 'source'): URL {
  return valid(argument, address, () => new URL(address, base));
}

function pathOf(url: URL): string {
  return valid('source', url.href, () => nodeModule<typeof import('node:url')>('url')!.fileURLToPath(url));
}

function valid<T>(argument: string, address: string, body: () => T): T {
  try {
    return body();
  } catch (cause) {
    throw invalid(argument, 'a valid URL', describe(address), 'INVALID_ARGUMENT', { cause });
  }
}

const SCHEME = /^(https?|file|blob|data|chrome-extension|moz-extension):/i;

/** Options of a load for opening the folder. */
export interface OpenFolderOptions extends Omit<RemoteOptions, 'integrity'> {
  /** Defaults for options that the call does not set. */
  hub?: RuntimeHub | undefined;
  signal?: SignalLike | undefined;
  integrity?: Integrity | undefined;
}

/**
 * Opens a model's folder and passes it to `use`, which must call the folder's `complete` at its end with the signal
 * that it receives, that of `stop`. If `use` fails, its transfers are ended. If it has combined cached files with newer
 * ones of the server, it is called again with a refreshed folder, unless `isOnce`.
 */
export async function withFolder<T>(
  given: ModelSource,
  options: OpenFolderOptions,
  use: (folder: ModelFolder, signal: SignalLike, stop: { abort(reason?: unknown): void }) => Promise<T>,
  isOnce = false,
): Promise<T> {
  const { stop, unlink } = linkedAbort(options.signal);
  let folder: ModelFolder | undefined;
  try {
    folder = await openFolder(given, { ...options, signal: stop.signal });
    return await use(folder, stop.signal, stop);
  } catch (error) {
    stop.abort(error);
    if ((await folder?.failed?.(error)) && !isOnce) return await withFolder(given, { ...options, refresh: true }, use);
    throw options.signal?.aborted ? options.signal.reason : error;
  } finally {
    unlink();
  }
}

/** Opens a model's folder. Pass `integrity` if you check afterwards that every expected file was read. */
export async function openFolder(
  given: ModelSource,
  {
    remoteHost,
    revision,
    token,
    hub = {},
    fetch = hub.fetch,
    cache = hub.cache ?? false,
    refresh = false,
    signal,
    integrity = new Integrity(),
  }: OpenFolderOptions = {},
): Promise<ModelFolder> {
  /** A source of files by URL, in Node also file: URLs. `address`: the URL under which they are cached. */
  async function remote(urlOf: UrlOf, address: string, fetcher = fetcherOf(null, null, fetch)): Promise<Source> {
    const http = httpSource(urlOf, fetcher);
    const open: Source['open'] = (path, signal, tag) => {
      const url = urlOf(path)!;
      return url.protocol === 'file:' && fs ? openPath(pathOf(url), signal) : http.open(path, signal, tag);
    };
    const checked = integrity.checkedSource({ open });
    const cached = async (store: Exclude<CacheOption, false>) => {
      const { cachedSource } = await importing('cache', () => import('./cache.js'));
      return cachedSource(checked, urlOf, address, { cache: store, refresh }, integrity);
    };
    return {
      ...(cache === false ? checked : await cached(cache)),
      urlOf,
      request: fetcher.request,
    };
  }

  /**
   * A source for a folder's or packed file's URL. `revision`: for a model specified by its id. `hint`: advice if the
   * folder does not exist.
   */
  async function urlSource(url: URL, revision?: string, hint?: string): Promise<Source> {
    const ownToken = token === undefined ? tokenFor(url.origin, revision !== undefined, hub) : token || null;
    if (url.pathname.endsWith('.safetensors')) {
      const fetcher = fetcherOf(url, ownToken, fetch, revision, hint);
      const single = (path: string) => (path === PACKED ? url : null);
      return packedSource(await remote(single, url.href, fetcher), integrity, signal);
    }
    if (url.protocol === 'file:' && fs) {
      const local = await localSource(pathOf(url));
      if (local) return local;
      throw invalid('source', "a folder's URL", `${url.href}, which is not a folder`, 'NOT_FOUND');
    }
    const folder = new URL(url.href);
    if (!folder.pathname.endsWith('/')) folder.pathname += '/';
    asUrl('.', folder); // there is nothing below blob: and data: URLs
    const fetcher = fetcherOf(folder, ownToken, fetch, revision, hint);
    return remote((path) => urlInside(folder, path), folder.href, fetcher);
  }

  /** A folder or a packed file on disk; null if `path` is neither. */
  async function localSource(path: string): Promise<Source | null> {
    const status = await statusOf(path);
    if (status?.isFile() && path.endsWith('.safetensors'))
      return packedSource(integrity.checkedSource({ open: (_, signal) => openPath(path, signal) }), integrity, signal);
    return status?.isDirectory() ? integrity.checkedSource(pathSource(path)) : null;
  }

  async function recordSource(files: Record<string, FileBytes>): Promise<Source> {
    const urlOf: UrlOf = (path) => (isUrl(files[path]) ? new URL(files[path].href) : null);
    const urls = await remote(urlOf, await addressOf(files, urlOf));
    const names = Object.keys(files).map((name) => `'${name}'`);
    const isOptions = names.length > 0 && Object.keys(files).every((name) => /^\w+$/.test(name));
    const hint = isOptions
      ? 'Options are the second argument; undefined as the first one is the bundled model'
      : undefined;
    const open: Source['open'] = async (path, signal) => {
      if (!Object.hasOwn(files, path))
        return missing('source', `'${path}' among its files`, names.join(', ') || 'none', hint);
      const file = files[path];
      if (isUrl(file)) return urls.open(path, signal);
      const opened = guarded(`source['${path}']`, () => memoryFile(path, file));
      return integrity.checked(path, opened);
    };
    const list = async (path: string) =>
      Object.keys(files).flatMap((name) => (name.startsWith(`${path}/`) ? [name.slice(path.length + 1)] : []));
    const all = { ...urls, open, list };
    return names.length === 1 && Object.hasOwn(files, PACKED) ? packedSource(all, integrity, signal) : all;
  }

  async function sourceOf(source: ReturnType<typeof readSource>): Promise<Source> {
    const isPath = fs && typeof source === 'string' && !SCHEME.test(source);
    const local = isPath ? await localSource(source) : null;
    const hubId = typeof source === 'string' && HUB_ID.test(source);
    const host = hubId && !local ? (remoteHost ?? hubHost(hub)) : undefined;
    if (host) {
      const root = asUrl(host.endsWith('/') ? host : `${host}/`, undefined, 'remoteHost');
      const at = revision ?? 'main';
      if (!isInside(at)) throw invalid('revision', 'a branch, tag or commit', describe(revision));
      return urlSource(asUrl(`${source}/resolve/${encodeURIComponent(at)}/`, root), at);
    }
    if (revision !== undefined)
      throw invalid('revision', "undefined, except for a hub model ('org/name' with `remoteHost`)", describe(revision));
    if (local) return local;
    if (isPath) {
      let hint: string | undefined;
      if (hubId)
        hint = 'For a model of the Hub, give its host as `remoteHost` or in the environment variable HF_ENDPOINT';
      else if (/^[\w.-]+$/.test(source))
        hint = "The id of a model of the Hub has two parts, as in 'sentence-transformers/all-MiniLM-L6-v2'";
      const got = `'${source}', which is not a folder here`;
      throw invalid('source', "a folder's path or URL, or its files' bytes", got, 'NOT_FOUND', { hint });
    }
    if (typeof source === 'string') {
      const hint = hubId
        ? `If '${source}' is a model of a hub rather than a folder of this site, give the hub's address as \`remoteHost\`, or for all models as load({ hub: { remoteHost } })`
        : undefined;
      return urlSource(asUrl(source, baseOf(hub)), undefined, hint);
    }
    return isUrl(source) ? urlSource(new URL(source.href)) : recordSource(source);
  }

  return folderOf(await sourceOf(readSource(given)), signal);
}

function isUrl(value: unknown): value is UrlLike {
  return typeof (value as UrlLike | null)?.href === 'string';
}

/**
 * The URL under which the files of a record are cached: their common folder's, or else the first file's URL with a
 * digest of all URLs. Empty if no file has a URL.
 */
async function addressOf(files: object, urlOf: UrlOf): Promise<string> {
  const urls = Object.keys(files)
    .sort()
    .flatMap((path) => (urlOf(path) ? [{ path, url: urlOf(path)!.href }] : []));
  const folders = urls.map(({ path, url: href }) => {
    const url = new URL(href);
    if (url.pathname.endsWith(`/${urlPath(path)}`)) url.pathname = url.pathname.slice(0, -urlPath(path).length);
    return url.href;
  });
  if (new Set(folders).size < 2) return folders[0] ?? '';
  const { sha256 } = await importing('sha256', () => import('./sha256.js'));
  const hash = sha256();
  hash.update(new TextEncoder().encode(JSON.stringify(urls)));
  return withParameter(urls[0]!.url, 'files', hash.hex());
}

const baseOf = ({ base = globalThis.location?.href }: RuntimeHub) => base;

/**
 * Converts the source to data that can be posted to a worker or stored, with relative URLs resolved against the page's
 * current URL.
 */
export function sourceForWorker(given: ModelSource, hub: RuntimeHub): { source: ModelSource; hub: RuntimeHub } {
  const source = readSource(given);
  const base = baseOf(hub);
  const isRelative = typeof source === 'string' && !fs && !HUB_ID.test(source); // ids are kept for messages
  return { source: isRelative ? asUrl(source, base).href : source, hub: { ...hub, base } };
}

function wrongSource(got: string): HeedError {
  const hint = got === 'null' ? 'Leave it out for the model in the package' : undefined;
  return invalid(
    'source',
    "a folder's URL or path, { 'config.json': bytes, ... }, or the bytes of a packed file",
    got,
    undefined,
    { hint },
  );
}

/** The files of a dropped folder by their paths below the folder that contains config.json. */
function namedFiles(list: Iterable<FileLike>): Record<string, FileLike> {
  const paths: [string, FileLike][] = [];
  for (const file of list) {
    if (!isBlob(file)) throw wrongSource(`a list with ${describe(file)} in it`);
    paths.push([file.webkitRelativePath || file.name, file]);
  }
  const [root = ''] = paths
    .flatMap(([path]) => /^(|.*\/)config\.json$/.exec(path)?.[1] ?? [])
    .sort((a, b) => a.split('/').length - b.split('/').length);
  return Object.fromEntries(
    paths.filter(([path]) => path.startsWith(root)).map(([path, file]) => [path.slice(root.length), file]),
  );
}
