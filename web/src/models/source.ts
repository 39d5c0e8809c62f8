/**
 * Where a model's files come from: a folder URL, a folder path in Node, bytes, or File objects. All look the same from outside: a folder whose files open into a stream
 * of chunks.
 */
import { describe, guarded, HeedError, invalid } from '../error.js';
import { folderOf, isFile, type ModelFolder, missing } from '../io/files.js';
import { httpFiles } from '../io/http.js';
import { Integrity, type IntegrityOption } from '../io/integrity.js';
import { memoryFile } from '../io/memory.js';
import { fs, openPath, statusOf } from '../io/node.js';
import { type BlobLike, type FileLike, nodeModule, type SignalLike, type UrlLike } from '../platform.js';
import { type CacheOption, cachedFiles, type UrlFiles } from './cache.js';
import { packedFolder } from './packed.js';

/** JSON files may be given as strings; a URL is fetched. */
export type FileBytes = ArrayBuffer | ArrayBufferView | BlobLike | UrlLike | string;

/**
 * A folder's URL or (in Node) path; that of one .safetensors file into which a folder was packed (packed.ts); or its files by name: bytes, Blobs or Files, URLs, JSON files also as strings. A list of `File`s (a dropped folder,
 * `<input webkitdirectory>`) counts too, each under its path below the folder.
 */
export type ModelSource = string | UrlLike | { readonly [name: string]: FileBytes } | Iterable<FileLike>;

export interface RemoteOptions {
  /** The host against which a hub id ("org/name") resolves; of no effect for other sources. */
  remoteHost?: string;
  /** Of a hub id: the branch, tag or commit. Default 'main'. */
  revision?: string;
  /** Keeps what comes from the network: see CacheOption. Default false. */
  cache?: CacheOption;
  /** What files must be, wherever they come from; one that differs fails the load, and is not kept. */
  integrity?: IntegrityOption;
}

/** What opening a folder of any kind needs to know. */
interface FolderContext {
  signal: SignalLike | undefined;
  integrity: Integrity;
  urls: UrlFiles;
}

/** A copy of the source in a form that can be sent to a worker: a string, an absolute URL, or a record of files. Read once. */
function readSource(source: unknown): string | UrlLike | Record<string, FileBytes> {
  return guarded('source', () => {
    if (typeof source === 'string' && source !== '') return source;
    if (typeof source !== 'object' || source === null) throw wrongSource(describe(source));
    if (isUrl(source)) return plainUrl(source);
    if (Symbol.iterator in source) return namedFiles(source as Iterable<FileLike>);
    return Object.fromEntries(
      Object.entries(source).map(([name, file]) => [name, isUrl(file) ? plainUrl(file) : file]),
    );
  });
}

/** What `new URL('./file', import.meta.url)` becomes in some bundles is no more than a path. */
function plainUrl(source: UrlLike): UrlLike {
  const { href, protocol } = asUrl(source.href, globalThis.location?.href);
  return { href, protocol };
}

function asUrl(text: string, base?: string | URL, argument = 'source'): URL {
  return valid(argument, text, () => new URL(text, base));
}

function pathOf(url: URL): string {
  return valid('source', url.href, () => nodeModule<typeof import('node:url')>('url')!.fileURLToPath(url));
}

/** What `body` makes of an address, or what is wrong with it in heed's words. */
function valid<T>(argument: string, address: string, body: () => T): T {
  try {
    return body();
  } catch (cause) {
    throw new HeedError('INVALID_ARGUMENT', `${argument}: got ${describe(address)}; expected a valid URL`, { cause });
  }
}

const SCHEME = /^(https?|file|blob|data|chrome-extension|moz-extension):/i;
const HUB_ID = /^[\w.-]+\/[\w.-]+$/;

export async function openFolder(
  given: ModelSource,
  {
    remoteHost,
    revision,
    cache = false,
    signal,
    integrity = new Integrity(),
  }: Omit<RemoteOptions, 'integrity'> & { signal?: SignalLike; integrity?: Integrity } = {},
): Promise<ModelFolder> {
  const source = readSource(given);
  const context: FolderContext = { signal, integrity, urls: await cachedFiles(urlFiles(integrity), cache, integrity) };
  const host = remoteHost ?? nodeModule<typeof import('node:process')>('process')?.env.HF_ENDPOINT;
  const hubId = typeof source === 'string' && HUB_ID.test(source) ? source : null;
  const local = fs && typeof source === 'string' && !SCHEME.test(source) ? await pathFolder(source, context) : null;
  if (hubId && host && !local) {
    const path = `${hubId}/resolve/${encodeURIComponent(revision ?? 'main')}/`;
    return urlFolder(asUrl(path, asUrl(host.endsWith('/') ? host : `${host}/`, undefined, 'remoteHost')), context);
  }
  if (revision !== undefined)
    throw invalid('revision', describe(revision), "it with a model of a hub only: 'org/name' and `remoteHost`");
  if (local) return local;
  if (typeof source !== 'string')
    return isUrl(source) ? urlFolder(new URL(source.href), context) : recordFolder(source, context);
  if (fs && !SCHEME.test(source)) {
    const hint = hubId
      ? "; for a model of the Hub, name the host to ask in `remoteHost` or in the environment's HF_ENDPOINT"
      : '';
    throw new HeedError(
      'NOT_FOUND',
      `source: got '${source}', which is no folder here; expected a folder's path or URL, or its files' bytes${hint}`,
    );
  }
  return urlFolder(asUrl(source, globalThis.location?.href), context);
}

function isUrl(value: unknown): value is UrlLike {
  return typeof (value as UrlLike | null)?.href === 'string';
}

/** The source as a worker can take it: relative URLs are made absolute here, where they are relative to. */
export function portable(given: ModelSource, remoteHost?: string): ModelSource {
  const source = readSource(given);
  const isHubId = remoteHost !== undefined && typeof source === 'string' && HUB_ID.test(source);
  if (typeof source !== 'string' || fs || isHubId) return source;
  return asUrl(source, globalThis.location?.href).href;
}

function wrongSource(got: string): HeedError {
  return invalid('source', got, "a folder's URL or path, or { 'config.json': bytes, ... }");
}

/** A dropped folder's files by their paths below the folder that holds config.json. */
function namedFiles(list: Iterable<FileLike>): Record<string, Blob> {
  const paths: [string, Blob][] = [];
  for (const file of list) {
    if (!(file instanceof Blob)) throw wrongSource(`a list with ${describe(file)} in it`);
    paths.push([(file as File).webkitRelativePath || (file as File).name, file]);
  }
  const config = paths
    .map(([path]) => path)
    .filter((path) => /(^|\/)config\.json$/.test(path))
    .sort((a, b) => a.split('/').length - b.split('/').length)[0];
  const root = config === undefined ? '' : config.slice(0, -'config.json'.length);
  return Object.fromEntries(
    paths.filter(([path]) => path.startsWith(root)).map(([path, file]) => [path.slice(root.length), file]),
  );
}

function recordFolder(files: Record<string, FileBytes>, { integrity, urls }: FolderContext): ModelFolder {
  const names = Object.keys(files);
  const find: Parameters<typeof folderOf>[1] = async (path, signal) => {
    if (!Object.hasOwn(files, path))
      return missing(
        `source: got no '${path}' among ${names.map((name) => `'${name}'`).join(', ') || 'no files'}; expected one`,
      );
    const file = files[path];
    if (isUrl(file)) return urls.open(new URL(file.href), path, signal);
    return integrity.checked(
      path,
      guarded(`source['${path}']`, () => memoryFile(path, file)),
    );
  };
  return folderOf('source', find, urls.failed);
}

async function pathFolder(path: string, { signal, integrity }: FolderContext): Promise<ModelFolder | null> {
  if (path.endsWith('.safetensors')) {
    const file = await openPath(path, signal);
    if (isFile(file)) return packedFolder(integrity.checked('model.safetensors', file), integrity);
    if (file.status === 'unreachable') throw file.error;
    return null;
  }
  if (!(await statusOf(path))?.isDirectory()) return null;
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  return folderOf(path, async (name, signal) => {
    const file = await openPath(join(path, name), signal);
    return isFile(file) ? integrity.checked(name, file) : file;
  });
}

/** Files by their URLs, in Node those of this machine too. */
function urlFiles(integrity: Integrity): UrlFiles {
  const openHttp = httpFiles();
  return {
    async open(url, path, signal) {
      const file =
        url.protocol === 'file:' && fs ? await openPath(pathOf(url), signal) : await openHttp(url, path, signal);
      return isFile(file) ? integrity.checked(path, file) : file;
    },
  };
}

async function urlFolder(url: URL, context: FolderContext): Promise<ModelFolder> {
  const { signal, integrity, urls } = context;
  if (url.pathname.endsWith('.safetensors')) {
    const file = await urls.open(url, 'model.safetensors', signal);
    if (!isFile(file)) throw file.error;
    return packedFolder(file, integrity, urls.failed);
  }
  if (url.protocol === 'file:' && fs) {
    const local = await pathFolder(pathOf(url), context);
    if (local) return local;
    throw new HeedError('NOT_FOUND', `source: got ${url.href}, which is no folder; expected a folder's URL`);
  }
  const base = new URL(url.href);
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  const find: Parameters<typeof folderOf>[1] = async (path, signal) =>
    urls.open(asUrl(path + base.search, base), path, signal);
  return folderOf(base.href, find, urls.failed);
}
