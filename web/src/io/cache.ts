/**
 * A cache for files from the network: the browser's Cache API, or a folder in Node. Only files that arrived whole and are valid are kept, and a cache that is full or
 * unavailable never makes a load fail.
 */
import { HeedError } from '../error.js';
import { nodeModule } from '../platform.js';
import { concatenate, isFile, type OpenFile, parseJson, type Source, streamChunks } from './files.js';
import type { UrlOf } from './http.js';
import type { Integrity } from './integrity.js';
import { fs, openPath } from './node.js';
import { headerEnd, parseHeader } from './safetensors.js';

/** true: the browser's cache storage named 'heed', in Node the folder `heed` among the user's caches (`$XDG_CACHE_HOME` or `~/.cache`, on macOS `~/Library/Caches`, on Windows `%LOCALAPPDATA%`); a string: another name, or another folder. */
export type CacheOption = boolean | string;

/** An entry's file, which has no bytes if the server has none: where it is, and its path below its folder. */
export interface Kept {
  url: string;
  path: string;
  bytes: number;
  /** Removes it. */
  remove(): Promise<void>;
}

type About = Pick<Kept, 'url' | 'path'> & Pick<OpenFile, 'tag'>;

export interface Store {
  get(key: string): Promise<OpenFile | null>;
  /** Receives a file's chunks; nothing is kept before `commit`. */
  writer(key: string, file: Pick<OpenFile, 'size' | 'expectedSize'>, about: About): Promise<Writer>;
  remove(key: string): Promise<void>;
  list(): Promise<Kept[]>;
  /** Removes all that this store has written, also what `list` does not find. */
  clear(): Promise<void>;
}

interface Writer {
  write(chunk: Uint8Array): Promise<void>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

/**
 * @internal `source`, whose files are kept once they have been read to their end. Missing files are kept as well, as entries without bytes: if the server cannot be reached, a file
 * is missing only if the server said so before. `refresh`: asks the server whether kept files have changed; if it cannot be asked, the load fails, and the files remain.
 */
export async function cachedSource(
  source: Source,
  urlOf: UrlOf,
  { cache, refresh }: { cache: CacheOption; refresh: boolean },
  integrity: Integrity,
): Promise<Source> {
  const store = cache === false ? null : await openStore(cache).catch(() => null);
  if (!store) return source;
  const used = new Set<string>();
  return {
    async open(path, signal) {
      const url = urlOf(path)!;
      if (!/^https?:$/.test(url.protocol)) return source.open(path, signal);
      const key = keyOf(url, integrity.of(path));
      const kept = await store.get(key).catch(() => null);
      const isMissing = kept?.size === 0;
      const use = (file: OpenFile) => {
        used.add(key);
        return integrity.checked(path, { ...file, name: url.href });
      };
      if (kept && !isMissing && !refresh) return use(kept);
      const found = await source.open(path, signal, (!isMissing && kept?.tag) || undefined);
      const about = { url: url.href, path, tag: (isFile(found) && found.tag) || null };
      if (isFile(found)) return { ...found, chunks: () => keeping(found, about, key, store) };
      if (found.status === 'unchanged') return use(kept!);
      if (found.status === 'unreachable') return isMissing && !refresh ? { ...found, status: 'missing' } : found;
      if (!isMissing)
        await store
          .writer(key, { size: 0 }, about)
          .then((writer) => writer.commit())
          .catch(() => {});
      return found;
    },
    // Kept files that are invalid, or no longer match the others, are fetched again by the next load.
    async failed(error) {
      if (error instanceof HeedError && error.code === 'INVALID_FILE')
        await Promise.allSettled(Array.from(used, (key) => store.remove(key)));
    },
  };
}

/** The whole address, as its query may select the file, and the expected digest, so that an entry with other bytes is not used. */
function keyOf(url: URL, digest: string | null): string {
  const key = new URL(url.href);
  key.hash = '';
  return digest === null ? key.href : `${key.href}${key.search ? '&' : '?'}sha256=${digest}`;
}

/** Passes a file's chunks on and keeps them. A file that is not read to its end, ends too soon or is invalid is not kept. */
async function* keeping(file: OpenFile, about: About, key: string, store: Store): AsyncIterable<Uint8Array> {
  let writer: Writer | null = await store.writer(key, file, about).catch(() => null);
  const isWeights = about.path.endsWith('.safetensors');
  /** The bytes to check: all of a JSON file, of weights the header, which says how long the file is. */
  let start: Uint8Array = new Uint8Array();
  const parts: Uint8Array[] = [];
  let received = 0;
  let whole = false;
  try {
    for await (const chunk of file.chunks()) {
      received += chunk.length;
      if (!isWeights) parts.push(chunk);
      else if (start.length < 8 || start.length < headerEnd(start, file.name, null))
        start = concatenate(Uint8Array, [start, chunk]);
      try {
        await writer?.write(chunk);
      } catch {
        await writer?.abort().catch(() => {}); // the cache is full
        writer = null;
      }
      yield chunk;
    }
    if (isWeights) parseHeader(start.subarray(8, headerEnd(start, file.name, received)), file.name, received);
    else parseJson(concatenate(Uint8Array, parts), file.name);
    whole = true;
  } finally {
    await (whole ? writer?.commit() : writer?.abort())?.catch(() => {});
  }
}

/** @internal Null where there is none: on insecure pages. */
export async function openStore(cache: CacheOption): Promise<Store | null> {
  const name = typeof cache === 'string' ? cache : undefined;
  if (fs) return folderStore(name);
  if (typeof caches === 'undefined') return null;
  return cacheStore(await caches.open(name ?? 'heed'));
}

/** The headers for a size that is an estimate, and for a file's path below its folder and its URL, as a key may have a digest at its end. */
const EXPECTED = 'x-expected-length';
const PATH = 'x-path';
const ADDRESS = 'x-url';

function cacheStore(cache: Cache): Store {
  return {
    async get(key) {
      const response = await cache.match(key);
      if (!response) return null;
      const { headers, body } = response;
      const length = (header: string) => (headers.has(header) ? Number(headers.get(header)) : null);
      // Some engines return no body if it is empty.
      const size = body ? length('content-length') : 0;
      const chunks = () => streamChunks(key, body!);
      return { name: key, size, expectedSize: length(EXPECTED), tag: headers.get('etag'), chunks };
    },
    async writer(key, { size, expectedSize }, { url, path, tag }) {
      // Encoded, as headers have no other characters than those of Latin-1.
      const headers = new Headers({ [PATH]: encodeURIComponent(path), [ADDRESS]: encodeURIComponent(url) });
      if (tag) headers.set('etag', tag);
      if (size !== null) headers.set('content-length', String(size));
      else if (expectedSize) headers.set(EXPECTED, String(expectedSize));
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      const stored = cache.put(key, new Response(readable, { headers }));
      stored.catch(() => {}); // the writes fail as well
      const writer = writable.getWriter();
      return {
        write: (chunk) => writer.write(chunk),
        async commit() {
          await writer.close();
          await stored;
        },
        abort: () => writer.abort(),
      };
    },
    async remove(key) {
      await cache.delete(key);
    },
    async list() {
      const requests = await cache.keys();
      const entries = requests.map(async (request) => {
        const response = await cache.match(request);
        if (!response) return [];
        const text = (header: string) => decodeURIComponent(response.headers.get(header) ?? '');
        const bytes = (await response.blob()).size;
        const remove = async () => void (await cache.delete(request));
        return [{ url: text(ADDRESS) || request.url, path: text(PATH), bytes, remove }];
      });
      return (await Promise.all(entries)).flat();
    },
    async clear() {
      for (const request of await cache.keys()) await cache.delete(request);
    },
  };
}

/** As each platform has it. */
function defaultFolder(): string {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { env, platform } = nodeModule<typeof import('node:process')>('process')!;
  const home = nodeModule<typeof import('node:os')>('os')!.homedir();
  if (platform === 'win32') return join(env.LOCALAPPDATA || join(home, 'AppData', 'Local'), 'heed', 'cache');
  if (platform === 'darwin') return join(home, 'Library', 'Caches', 'heed');
  return join(env.XDG_CACHE_HOME || join(home, '.cache'), 'heed');
}

function folderStore(given: string | undefined): Store {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { createHash, randomUUID } = nodeModule<typeof import('node:crypto')>('crypto')!;
  const folder = given ?? defaultFolder();
  const pathOf = (key: string) => join(folder, createHash('sha256').update(key).digest('hex'));
  const names = async () => (await fs!.readdir(folder).catch(() => [])).filter((name) => OWN_NAME.test(name));
  const removeNamed = (name: string) => fs!.rm(join(folder, name), { force: true });
  /** What is in the file beside an entry; null if it is missing or damaged. */
  async function aboutOf(entry: string): Promise<About | null> {
    try {
      const about = JSON.parse(await fs!.readFile(`${entry}.json`, 'utf8')) as Partial<About>;
      const { url, path, tag } = about;
      return typeof url === 'string' && typeof path === 'string'
        ? { url, path, tag: typeof tag === 'string' ? tag : null }
        : null;
    } catch {
      return null;
    }
  }
  return {
    async get(key) {
      const file = await openPath(pathOf(key));
      return isFile(file) ? { ...file, tag: (await aboutOf(pathOf(key)))?.tag ?? null } : null;
    },
    async writer(key, _, about) {
      await fs!.mkdir(folder, { recursive: true });
      // Under another name until it is whole, as other processes may use the folder as well.
      const part = `${pathOf(key)}.${randomUUID()}`;
      const handle = await fs!.open(part, 'wx');
      return {
        async write(chunk) {
          await handle.writeFile(chunk);
        },
        async commit() {
          await handle.close();
          await fs!.rename(part, pathOf(key));
          // Afterwards: new bytes with an old tag are only downloaded again, old bytes with a new tag would stay.
          await fs!.writeFile(part, JSON.stringify(about));
          await fs!.rename(part, `${pathOf(key)}.json`);
        },
        async abort() {
          await handle.close();
          await fs!.rm(part, { force: true });
        },
      };
    },
    async remove(key) {
      for (const path of [`${pathOf(key)}.json`, pathOf(key)]) await fs!.rm(path, { force: true });
    },
    async list() {
      const entries = (await names()).map(async (name): Promise<Kept[]> => {
        const entry = join(folder, name.slice(0, -'.json'.length));
        const about = name.endsWith('.json') ? await aboutOf(entry) : null;
        const file = about && (await fs!.stat(entry).catch(() => null));
        const remove = async () => {
          for (const each of [name, name.slice(0, -'.json'.length)]) await removeNamed(each);
        };
        return about && file ? [{ url: about.url, path: about.path, bytes: file.size, remove }] : [];
      });
      return (await Promise.all(entries)).flat();
    },
    async clear() {
      for (const name of await names()) await removeNamed(name);
    },
  };
}

/** An entry, what is written beside it, and what an interrupted process has left. */
const OWN_NAME = /^[\da-f]{64}(\.json|\.[\da-f-]{36})?$/;
