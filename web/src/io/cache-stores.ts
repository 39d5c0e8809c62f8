/**
 * Storage of cached files: the browser's Cache API, or a folder in Node. A store holds the bytes of files, each under
 * its own key, and one record per model folder, which lists the keys of its files. Records are replaced atomically, so
 * that a record's files never mix those of different loads.
 */
import { nodeModule } from '../base/platform.js';
import { isFile, type OpenFile, streamChunks } from './files.js';
import { withParameter } from './http.js';
import { fs, openPath } from './node.js';

/**
 * Where models from the network are cached. false: nowhere. true: in browsers, the cache storage named 'heed'; in Node,
 * the folder `heed` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`; on macOS `~/Library/Caches`; on
 * Windows `%LOCALAPPDATA%`). A string: another name or folder.
 */
export type CacheOption = boolean | string;

/** A file of a folder, as received from the server. */
export interface KeptFile {
  url: string;
  /** Key of the file's bytes; null if the load did not read all of them. */
  key: string | null;
  /** Size; null if unknown. */
  bytes: number | null;
  /** The file's `ETag` or `Last-Modified`; null if the server sent neither. */
  tag: string | null;
  /** The SHA-256 digest that was expected of the file, in hex; null if none was. */
  digest: string | null;
}

/** The files of a folder by path; null for paths that the server does not have. */
export type FolderRecord = Record<string, KeptFile | null>;

export interface Store {
  /** The record of a folder; null if it does not exist or cannot be read. */
  record(folder: string): Promise<FolderRecord | null>;
  setRecord(folder: string, record: FolderRecord): Promise<void>;
  /** All records, by their names for `removeRecord`. */
  records(): Promise<Map<string, FolderRecord>>;
  removeRecord(name: string): Promise<void>;
  /** The name of a folder's record. */
  nameOf(folder: string): string;
  has(key: string): Promise<boolean>;
  open(key: string): Promise<OpenFile | null>;
  /** Opens a writer for a file's chunks. Nothing is stored before `commit`. */
  writer(key: string, file: Pick<OpenFile, 'size'>): Promise<Writer>;
  remove(key: string): Promise<void>;
  /** Removes files that no record refers to and that are too old to belong to a load in progress. */
  sweep(): Promise<void>;
  /** Removes everything that this store has written. */
  clear(): Promise<void>;
}

export interface Writer {
  write(chunk: Uint8Array): Promise<void>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

/** Milliseconds after which a load is considered dead. */
const DAY = 86_400_000;
/**
 * Query parameter that distinguishes keys from URLs. Its value is RECORD for a record; for a file, the time of writing
 * and a random number.
 */
const PARAMETER = 'heed';
const RECORD = 'folder';

/** A new key for the bytes of the file at `url`. */
export function newKey(url: string): string {
  const random = Math.floor(Math.random() * 2 ** 48).toString(36);
  return withParameter(url, PARAMETER, `${Date.now().toString(36)}-${random}`);
}

const partOf = (key: string) => new RegExp(`[?&]${PARAMETER}=([\\w-]+)$`).exec(key)?.[1];

/** The keys of a record's files. */
export const keysOf = (record: FolderRecord | null) =>
  Object.values(record ?? {}).flatMap((file) => (file?.key ? [file.key] : []));

/** Parses a stored record; null if it is invalid, such as one written by an earlier version. */
function parseRecord(text: string | null): FolderRecord | null {
  try {
    const { files } = JSON.parse(text!) as { files?: FolderRecord | undefined };
    return typeof files === 'object' ? files : null;
  } catch {
    return null;
  }
}

/** @internal Opens the store; null where the Cache API is missing, as on insecure pages. */
export async function openStore(cache: CacheOption): Promise<Store | null> {
  const name = typeof cache === 'string' ? cache : undefined;
  if (fs) return folderStore(name);
  if (typeof caches === 'undefined') return null;
  return cacheStore(await caches.open(name ?? 'heed'));
}

/** Header that contains a record. Its entry has no body, so that listing does not read bodies. */
const FILES = 'x-files';

function cacheStore(cache: Cache): Store {
  const nameOf = (folder: string) => withParameter(folder, PARAMETER, RECORD);
  const recordAt = async (name: string) => {
    const files = (await cache.match(name))?.headers.get(FILES);
    return parseRecord(files ? decodeURIComponent(files) : null);
  };
  const keys = async () => (await cache.keys()).map(({ url }) => url);
  const store: Store = {
    nameOf,
    record: (folder) => recordAt(nameOf(folder)),
    async setRecord(folder, files) {
      // Encoded, because headers are limited to Latin-1.
      const headers = { [FILES]: encodeURIComponent(JSON.stringify({ files })) };
      await cache.put(nameOf(folder), new Response('', { headers }));
    },
    async records() {
      const found = new Map<string, FolderRecord>();
      for (const key of await keys()) {
        const record = partOf(key) === RECORD ? await recordAt(key) : null;
        if (record) found.set(key, record);
      }
      return found;
    },
    async removeRecord(name) {
      await cache.delete(name);
    },
    has: async (key) => (await cache.match(key)) !== undefined,
    async open(key) {
      const response = await cache.match(key);
      if (!response) return null;
      // Some engines return null for an empty body.
      const body = response.body ?? new Blob([]).stream();
      return {
        name: key,
        size: null,
        chunks: () => streamChunks(key, body),
        close: () => body.cancel().catch(() => {}),
      };
    },
    async writer(key, { size }) {
      const headers = new Headers(size === null ? {} : { 'content-length': String(size) });
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
    async sweep() {
      const named = new Set([...(await store.records()).values()].flatMap(keysOf));
      for (const key of await keys()) {
        const time = Number.parseInt(partOf(key) ?? '0', 36);
        if (partOf(key) !== RECORD && !named.has(key) && time < Date.now() - DAY) await cache.delete(key);
      }
    },
    async clear() {
      for (const key of await keys()) await cache.delete(key);
    },
  };
  return store;
}

/** The platform's default cache folder. */
function defaultFolder(): string {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { env, platform } = nodeModule<typeof import('node:process')>('process')!;
  const home = nodeModule<typeof import('node:os')>('os')!.homedir();
  if (platform === 'win32') return join(env.LOCALAPPDATA || join(home, 'AppData', 'Local'), 'heed', 'cache');
  if (platform === 'darwin') return join(home, 'Library', 'Caches', 'heed');
  return join(env.XDG_CACHE_HOME || join(home, '.cache'), 'heed');
}

/** Names of files, of records (.json), and of files that are being written (with a UUID). */
const OWN_NAME = /^[\da-f]{64}(\.json|\.[\da-f-]{36})?$/;

function folderStore(given: string | undefined): Store {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { createHash, randomUUID } = nodeModule<typeof import('node:crypto')>('crypto')!;
  const folder = given ?? defaultFolder();
  const hashOf = (key: string) => createHash('sha256').update(key).digest('hex');
  const pathOf = (key: string) => join(folder, hashOf(key));
  const nameOf = (key: string) => `${hashOf(key)}.json`;
  const names = async () => (await fs!.readdir(folder).catch(() => [])).filter((name) => OWN_NAME.test(name));
  const removeNamed = (name: string) => fs!.rm(join(folder, name), { force: true });
  const recordAt = async (name: string) =>
    parseRecord(await fs!.readFile(join(folder, name), 'utf8').catch(() => null));
  const store: Store = {
    nameOf,
    record: (of) => recordAt(nameOf(of)),
    async setRecord(of, files) {
      const writer = await partWriter(nameOf(of));
      await writer.write(new TextEncoder().encode(JSON.stringify({ files })));
      await writer.commit();
    },
    async records() {
      const found = new Map<string, FolderRecord>();
      for (const name of await names()) {
        const record = name.endsWith('.json') ? await recordAt(name) : null;
        if (record) found.set(name, record);
      }
      return found;
    },
    removeRecord: removeNamed,
    has: async (key) => isFile(await openPath(pathOf(key))),
    async open(key) {
      const file = await openPath(pathOf(key));
      return isFile(file) ? file : null;
    },
    writer: (key) => partWriter(hashOf(key)),
    remove: (key) => removeNamed(hashOf(key)),
    async sweep() {
      const records = await store.records();
      const named = new Set([...records.keys(), ...[...records.values()].flatMap(keysOf).map(hashOf)]);
      for (const name of await names()) {
        if (named.has(name)) continue;
        const { mtimeMs } = await fs!.stat(join(folder, name));
        if (mtimeMs < Date.now() - DAY) await removeNamed(name);
      }
    },
    async clear() {
      for (const name of await names()) await removeNamed(name);
    },
  };

  /** Writes a file under a temporary name until it is complete, because other processes may use the folder. */
  async function partWriter(name: string): Promise<Writer> {
    await fs!.mkdir(folder, { recursive: true });
    const part = join(folder, `${name.slice(0, 64)}.${randomUUID()}`);
    const handle = await fs!.open(part, 'wx');
    return {
      async write(chunk) {
        await handle.writeFile(chunk);
      },
      async commit() {
        await handle.close();
        await fs!.rename(part, join(folder, name));
      },
      async abort() {
        await handle.close();
        await fs!.rm(part, { force: true });
      },
    };
  }
  return store;
}
