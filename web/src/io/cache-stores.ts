/**
 * Storage of cached files: the browser's Cache API, or a folder in Node. A store holds the bytes of files, each under
 * its own key, and one record per model folder, which lists the keys of its files. Records are replaced atomically, so
 * that a record's files never mix those of different loads.
 *
 * A store may be an app's own Cache or folder, with entries of others. Only what heed has written is listed, replaced or
 * deleted: records, recognized by their content; files that a record names; and files that a mark of heed is for.
 */
import { variable } from '../base/hub-options.js';
import { OwnFile, removeOwn, removeRecognized } from '../base/own-files.js';
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
  /**
   * Removes files that no record refers to and that are too old to belong to a load in progress; with `isAll`, also
   * newer ones. Resolves to their number and bytes.
   */
  sweep(isAll?: boolean): Promise<Removed>;
}

/** What has been removed from a store. */
export interface Removed {
  files: number;
  bytes: number;
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

/** Whether `key` is one that `newKey` makes for a URL. */
function isKeyOf(key: unknown, url: string): boolean {
  const part = typeof key === 'string' ? partOf(key) : undefined;
  return part !== undefined && /^[\da-z]+-[\da-z]+$/.test(part) && withParameter(url, PARAMETER, part) === key;
}

/** Parses a stored record; null if it is not one of heed. */
function parseRecord(text: string | null): FolderRecord | null {
  try {
    const { files, ...others } = JSON.parse(text!) as { files: FolderRecord };
    const isOptional = (value: unknown, type: string) => value === null || typeof value === type;
    const isOwn = Object.values(files).every((file) => {
      if (file === null) return true;
      const { url, key, bytes, tag, digest } = file;
      const isKept = key === null || isKeyOf(key, url);
      return isKept && isOptional(bytes, 'number') && isOptional(tag, 'string') && isOptional(digest, 'string');
    });
    return isOwn && keysOf(files).length > 0 && Object.keys(others).length === 0 ? files : null;
  } catch {
    return null;
  }
}

const notOwn = (name: string) => new Error(`${name}: expected a record of heed, got other content`);

/** @internal Opens the store; null where the Cache API is missing, as on insecure pages. */
export async function openStore(cache: CacheOption): Promise<Store | null> {
  const name = typeof cache === 'string' ? cache : undefined;
  if (fs) return folderStore(name);
  if (typeof caches === 'undefined') return null;
  return cacheStore(await caches.open(name ?? 'heed'));
}

/** Header that contains a record. Its entry has no body, so that listing does not read bodies. */
const FILES = 'x-files';
/** Header that marks the entries of files. */
const MARK = 'x-heed';

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
      const name = nameOf(folder);
      if ((await cache.match(name)) && !(await recordAt(name))) throw notOwn(name);
      // Encoded, because headers are limited to Latin-1.
      const headers = { [FILES]: encodeURIComponent(JSON.stringify({ files })) };
      await cache.put(name, new Response('', { headers }));
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
      if (await recordAt(name)) await cache.delete(name);
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
      const headers = new Headers({ [MARK]: 'file', ...(size !== null && { 'content-length': String(size) }) });
      const body = bodyOf();
      const stored = cache.put(key, new Response(body.stream, { headers }));
      stored.catch(() => {}); // the writes fail as well
      return {
        write: async (chunk) => Promise.race([body.write(chunk), stored]),
        async commit() {
          body.end();
          await stored;
        },
        abort: async () => body.fail(),
      };
    },
    async remove(key) {
      await cache.delete(key);
    },
    async sweep(isAll = false) {
      const named = new Set([...(await store.records()).values()].flatMap(keysOf));
      const removed: Removed = { files: 0, bytes: 0 };
      for (const key of await keys()) {
        const part = partOf(key);
        if (part === undefined || part === RECORD || named.has(key)) continue;
        if (!isAll && Number.parseInt(part, 36) >= Date.now() - DAY) continue;
        const headers = (await cache.match(key))?.headers;
        if (!headers?.has(MARK) || !(await cache.delete(key))) continue;
        removed.files++;
        removed.bytes += Number(headers.get('content-length') ?? 0);
      }
      return removed;
    },
  };
  return store;
}

/**
 * A response's body that is written chunk by chunk. `write` resolves when the chunk has been taken. With a
 * TransformStream, a write would wait forever for a reader that has failed.
 */
function bodyOf() {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let taken = () => {};
  const stream = new ReadableStream<Uint8Array>(
    {
      start(given) {
        controller = given;
      },
      pull: () => taken(),
    },
    { highWaterMark: 0 },
  );
  return {
    stream,
    /** Waits until the reader asks for the next chunk. */
    write(chunk: Uint8Array): Promise<void> {
      const asked = new Promise<void>((resolve) => {
        taken = resolve;
      });
      controller.enqueue(chunk);
      return asked;
    },
    end: () => controller.close(),
    fail: () => controller.error(new Error('aborted')),
  };
}

/** The platform's default cache folder. */
function defaultFolder(): string {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { platform } = nodeModule<typeof import('node:process')>('process')!;
  const home = nodeModule<typeof import('node:os')>('os')!.homedir();
  if (platform === 'win32') return join(variable('LOCALAPPDATA') ?? join(home, 'AppData', 'Local'), 'heed', 'cache');
  if (platform === 'darwin') return join(home, 'Library', 'Caches', 'heed');
  return join(variable('XDG_CACHE_HOME') ?? join(home, '.cache'), 'heed');
}

/** Names of files, followed by a UUID while they are being written; and names of records and marks. */
const UNFINISHED_OR_WHOLE = /^[\da-f]{64}(\.[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})?$/;
const ABOUT = /^[\da-f]{64}\.json$/;

/**
 * A file's name is the SHA-256 digest of its key; while it is being written, a dot and a UUID follow. Until a record
 * names it, its mark, a file { heed: key } with the same name and .json, tells that heed has written it.
 */
function folderStore(given: string | undefined): Store {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { createHash, randomUUID } = nodeModule<typeof import('node:crypto')>('crypto')!;
  const { readFileSync } = nodeModule<typeof import('node:fs')>('fs')!;
  const folder = given ?? defaultFolder();
  const hashOf = (key: string) => createHash('sha256').update(key).digest('hex');
  const pathOf = (key: string) => join(folder, hashOf(key));
  const nameOf = (key: string) => `${hashOf(key)}.json`;
  const names = async () => fs!.readdir(folder).catch((): string[] => []);
  const textAt = (name: string) => fs!.readFile(join(folder, name), 'utf8').catch(() => null);
  const recordAt = async (name: string) => parseRecord(await textAt(name));
  const isMark = (text: string | null, hash: string): boolean => {
    try {
      const { heed: key, ...others } = JSON.parse(text!) as { heed: string };
      return typeof key === 'string' && hashOf(key) === hash && Object.keys(others).length === 0;
    } catch {
      return false;
    }
  };
  /** Runs `isOwn` with the text of a file; false if it cannot be read. */
  const byText = (isOwn: (text: string) => boolean) => (path: string) => {
    try {
      return isOwn(readFileSync(path, 'utf8'));
    } catch {
      return false;
    }
  };
  const isRecordFile = byText((text) => parseRecord(text) !== null);
  const removeMark = (hash: string) =>
    removeOwn(
      join(folder, `${hash}.json`),
      byText((text) => isMark(text, hash)),
    );
  /** Marks the file of a key as heed's. */
  const mark = (key: string) => write(nameOf(key), JSON.stringify({ heed: key }), () => true); // a name of this key
  const store: Store = {
    nameOf,
    record: (of) => recordAt(nameOf(of)),
    async setRecord(of, files) {
      const keys = new Set(keysOf(files));
      // If this process ends before it has removed the files of the former record, a later one recognizes them.
      for (const key of keysOf(await store.record(of))) if (!keys.has(key)) mark(key);
      if (!write(nameOf(of), JSON.stringify({ files }), isRecordFile)) throw notOwn(nameOf(of));
      for (const key of keys) removeMark(hashOf(key));
    },
    async records() {
      const found = new Map<string, FolderRecord>();
      for (const name of await names()) {
        const record = ABOUT.test(name) ? await recordAt(name) : null;
        if (record) found.set(name, record);
      }
      return found;
    },
    async removeRecord(name) {
      const keys = keysOf(await recordAt(name));
      for (const key of keys) mark(key);
      removeOwn(join(folder, name), isRecordFile);
    },
    has: async (key) => isFile(await openPath(pathOf(key))),
    async open(key) {
      const file = await openPath(pathOf(key));
      return isFile(file) ? file : null;
    },
    async writer(key) {
      await fs!.mkdir(folder, { recursive: true });
      const file = new OwnFile(`${pathOf(key)}.${randomUUID()}`);
      try {
        mark(key);
      } catch (error) {
        file.remove();
        throw error;
      }
      return {
        write: (chunk) => file.writeLater(chunk),
        async commit() {
          if (!file.replace(pathOf(key), () => false)) throw new Error(`${pathOf(key)}: expected no file`);
        },
        async abort() {
          file.remove();
          removeMark(hashOf(key));
        },
      };
    },
    async remove(key) {
      await removeRecognized(pathOf(key));
      removeMark(hashOf(key));
    },
    async sweep(isAll = false) {
      const all = await names();
      const records = await store.records();
      const named = new Set([...records.values()].flatMap(keysOf).map(hashOf));
      const removed: Removed = { files: 0, bytes: 0 };
      for (const name of all) {
        const hash = name.slice(0, 64);
        if (!ABOUT.test(name) || records.has(name) || !isMark(await textAt(name), hash)) continue;
        const files = named.has(hash)
          ? []
          : all.filter((each) => each.startsWith(hash) && UNFINISHED_OR_WHOLE.test(each));
        const found = await Promise.all([name, ...files].map((each) => fs!.stat(join(folder, each)).catch(() => null)));
        const isOld = found.every((status) => status === null || status.mtimeMs < Date.now() - DAY);
        if (!isAll && !isOld) continue;
        for (const each of files) await removeRecognized(join(folder, each));
        removeMark(hash);
        removed.files += files.length;
        for (const status of found.slice(1)) removed.bytes += status?.size ?? 0;
      }
      return removed;
    },
  };

  /** Writes a file under a temporary name first, because other processes may use the folder. */
  function write(name: string, text: string, isOwn: (path: string) => boolean): boolean {
    const file = new OwnFile(join(folder, `${name.slice(0, 64)}.${randomUUID()}`));
    try {
      file.write(new TextEncoder().encode(text));
      return file.replace(join(folder, name), isOwn);
    } catch (error) {
      file.remove();
      throw error;
    }
  }
  return store;
}
