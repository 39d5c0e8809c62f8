/**
 * A cache for model folders from the network. A folder is cached as a whole: once a load has succeeded, the files that
 * it has read replace the cached ones. Later loads then make no requests, not even for files that the server does not
 * have. A full or unavailable cache never makes a load fail.
 */
import { HeedError, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import {
  type CacheOption,
  type FolderRecord,
  type KeptFile,
  keysOf,
  newKey,
  openStore,
  type Store,
  type Writer,
} from './cache-stores.js';
import { concatenate, type Found, isFile, missing, type OpenFile, parseJson, type Source } from './files.js';
import type { UrlOf } from './http.js';
import type { Integrity } from './integrity.js';
import { headerEnd, parseHeader } from './safetensors.js';

/**
 * @internal Wraps `source` so that its files are cached under `folder`, a URL. `refresh`: asks the server whether
 *   cached files have changed. If it cannot be reached, the load fails and the cached files remain.
 */
export async function cachedSource(
  source: Source,
  urlOf: UrlOf,
  folder: string,
  { cache, refresh }: { cache: Exclude<CacheOption, false>; refresh: boolean },
  integrity: Integrity,
): Promise<Source> {
  const store = await openStore(cache).catch(() => null);
  if (!store) return source;
  const record = await usableRecord(store, folder, integrity).catch(() => null);
  const load = new CachedLoad(source, urlOf, store, folder, record, refresh, integrity);
  return {
    open: (path, signal) => load.open(path, signal),
    note: (path, tag) => load.note(path, tag),
    complete: (signal) => load.complete(signal),
    failed: (error) => load.failed(error),
  };
}

/**
 * A folder's record; null if any of its files is missing, because browsers may evict some, or lacks the expected
 * digest.
 */
async function usableRecord(store: Store, folder: string, integrity: Integrity): Promise<FolderRecord | null> {
  const record = await store.record(folder);
  const there = await Promise.all(keysOf(record).map((key) => store.has(key)));
  const hasDigest = ([path, file]: [string, KeptFile | null]) =>
    !file?.key || integrity.of(path) === null || integrity.of(path) === file.digest;
  return record && there.every(Boolean) && Object.entries(record).every(hasDigest) ? record : null;
}

/**
 * One load of a folder: tracks which files come from the record and which are fetched, and updates the cache at the
 * end.
 */
class CachedLoad {
  /** Paths that this load has opened and that match the record. */
  readonly #used = new Set<string>();
  /** Files, and missing files (null), for which the server's answer differs from the record. */
  readonly #fetched = new Map<string, KeptFile | null>();
  readonly #writers = new Set<Writer>();
  /** Keys of the files that have been written completely. */
  readonly #written: string[] = [];
  #cannotWrite = false;
  /** Whether fetched files may belong to a different revision from the others. */
  #isUnverified = false;
  /** The error for a file that is known to have changed since it was cached or fetched; null if there is none. */
  #changed: HeedError | null = null;

  constructor(
    private readonly source: Source,
    private readonly urlOf: UrlOf,
    private readonly store: Store,
    private readonly folder: string,
    private readonly record: FolderRecord | null,
    private readonly refresh: boolean,
    private readonly integrity: Integrity,
  ) {}

  async open(path: string, signal?: SignalLike): Promise<Found> {
    const { protocol, href } = this.urlOf(path)!;
    if (!/^https?:$/.test(protocol)) return this.source.open(path, signal);
    const own = this.#fetched.get(path);
    const again = own?.key ? await this.store.open(own.key).catch(() => null) : null;
    if (again) return { ...again, name: href };
    const kept = this.record?.[path];
    if (kept === null && !this.refresh) return this.#absent(path, href);
    if (kept && !this.refresh) return this.#kept(path, kept, signal);
    const found = await this.source.open(path, signal, kept?.tag ?? undefined);
    if (isFile(found)) return this.#keeping(path, href, found);
    if (found.status === 'unchanged') return this.#kept(path, kept!, signal);
    if (found.status === 'missing') this.#note(path, null);
    return found;
  }

  /** Records that a file with this tag is read by ranges, without `open`. */
  note(path: string, tag: string | null): void {
    this.#note(path, { url: this.urlOf(path)!.href, key: null, bytes: null, tag, digest: null });
  }

  #note(path: string, file: KeptFile | null): void {
    const isAgain = this.#fetched.has(path);
    const before = isAgain ? this.#fetched.get(path) : this.record?.[path];
    if (before === null ? file === null : before?.tag && before.tag === file?.tag) {
      if (!isAgain) this.#used.add(path); // matches the record
      return;
    }
    if (isAgain && before?.tag !== file?.tag) this.#changed ??= changed(file?.url ?? path);
    this.#isUnverified = true;
    this.#fetched.set(path, file);
  }

  #absent(path: string, url: string): Found {
    this.#used.add(path);
    const hint = '`refresh: true` asks the server again';
    return {
      ...missing(url),
      error: invalid(url, 'the file', 'none when the folder was cached', 'NOT_FOUND', { hint }),
    };
  }

  /** Opens a file of the record. If its bytes are not cached, they are fetched when they are read. */
  async #kept(path: string, file: KeptFile, signal: SignalLike | undefined): Promise<OpenFile> {
    const { url: name, key, bytes, tag } = file;
    this.#used.add(path);
    if (key === null) return { name, size: bytes, tag, chunks: () => this.#later(path, name, signal) };
    const open = await this.store.open(key).catch(() => null);
    if (!open) {
      this.#changed = new HeedError('NOT_FOUND', `${name}: the file was removed from the cache`);
      throw this.#changed;
    }
    return this.integrity.checked(path, { ...open, name, size: open.size ?? bytes, tag });
  }

  async *#later(path: string, url: string, signal: SignalLike | undefined): AsyncIterable<Uint8Array> {
    const found = await this.source.open(path, signal);
    if (!isFile(found)) throw found.error;
    yield* this.#keeping(path, url, found).chunks();
  }

  /** Wraps a file from the server so that it is written to the store while it is read. */
  #keeping(path: string, url: string, file: OpenFile): OpenFile {
    const { tag = null, size: bytes } = file;
    const about = { url, key: null, bytes, tag, digest: this.integrity.of(path) };
    this.#note(path, about);
    return { ...file, chunks: () => this.#passing(path, file, about) };
  }

  /**
   * Yields a file's chunks and writes them to the store. A file that is not read completely, is truncated or is invalid
   * is not cached.
   */
  async *#passing(path: string, file: OpenFile, about: KeptFile): AsyncIterable<Uint8Array> {
    const key = newKey(about.url);
    const cannotWrite = () => {
      this.#cannotWrite = true;
      return null;
    };
    let writer = this.#cannotWrite ? null : await this.store.writer(key, file).catch(cannotWrite);
    if (writer) this.#writers.add(writer);
    const check = checkOf(path, file.name);
    let whole = false;
    try {
      for await (const chunk of file.chunks()) {
        check.add(chunk);
        try {
          await writer?.write(chunk);
        } catch {
          await writer!.abort().catch(() => {}); // the cache is full
          writer = cannotWrite();
        }
        yield chunk;
      }
      check.end();
      whole = true;
    } finally {
      if (writer) this.#writers.delete(writer);
      if (!whole) await writer?.abort().catch(() => {});
      else if (writer)
        await writer.commit().then(() => {
          this.#written.push(key);
          this.#fetched.set(path, { ...about, key, bytes: check.bytes });
        }, cannotWrite);
    }
  }

  /**
   * Call this when the load has succeeded. Caches the files that it has read, after asking the server whether all of
   * them are unchanged, so that files of two revisions are never mixed.
   * @throws HeedError if a file has changed
   */
  async complete(signal?: SignalLike): Promise<void> {
    if (this.#changed) throw this.#changed;
    if (this.#fetched.size === 0) return;
    const record: FolderRecord = { ...this.record, ...Object.fromEntries(this.#fetched) };
    const isKnown = !this.#isUnverified || (await this.#verify(record, signal));
    signal?.throwIfAborted();
    if (isKnown && !this.#cannotWrite && keysOf(record).length > 0) await this.#replace(record).catch(() => {});
    await this.#discard();
    this.#fetched.clear();
  }

  /**
   * Checks that the files of `record` are unchanged on the server. Removes changed ones that this load has not used
   * from `record`. Returns false if the server could not confirm a fetched file.
   */
  async #verify(record: FolderRecord, signal: SignalLike | undefined): Promise<boolean> {
    const paths = Object.keys(record);
    if (paths.length === 1) return true;
    let isKnown = true;
    const verify = async (path: string) => {
      const file = record[path]!;
      const [isUsed, isFetched] = [this.#used.has(path), this.#fetched.has(path)];
      // A record of URLs may name only some of the folder's files.
      const found = this.urlOf(path) !== null && (await this.#current(path, file, isFetched, signal));
      if (found === true) return;
      if (isUsed && found) throw found;
      if (isUsed || (isFetched && !found)) {
        this.#changed = changed(this.urlOf(path)!.href);
        throw this.#changed;
      }
      if (isFetched) isKnown = false;
      else delete record[path];
    };
    await Promise.all(paths.map(verify));
    return isKnown;
  }

  /**
   * Whether a file is unchanged on the server, or an error if the server cannot be reached. A file without a tag counts
   * as unchanged during the load that has fetched it, and as long as no other file is fetched.
   */
  async #current(
    path: string,
    file: KeptFile | null,
    isFetched: boolean,
    signal: SignalLike | undefined,
  ): Promise<boolean | HeedError> {
    if (file?.tag === null) return isFetched || [...this.#fetched.values()].every((fetched) => fetched === null);
    const found = await this.source.open(path, signal, file?.tag);
    if (isFile(found)) {
      await found.close?.();
      return false;
    }
    return found.status === 'unreachable' ? found.error : found.status === (file ? 'unchanged' : 'missing');
  }

  async #replace(record: FolderRecord): Promise<void> {
    const before = keysOf(await this.store.record(this.folder));
    await this.store.setRecord(this.folder, record);
    const now = new Set(keysOf(record));
    const others = [...before, ...this.#written.splice(0)].filter((key) => !now.has(key));
    await Promise.all(others.map((key) => this.store.remove(key)));
    await this.store.sweep();
  }

  /** Removes files that have been written but are not in the record. */
  async #discard(): Promise<void> {
    const writers = [...this.#writers].map((writer) => writer.abort());
    await Promise.allSettled([...writers, ...this.#written.splice(0).map((key) => this.store.remove(key))]);
  }

  /**
   * Call this when the load has failed. Returns true if cached and fetched files may belong to different revisions, in
   * which case a load with `refresh` may succeed.
   */
  async failed(error: unknown): Promise<boolean> {
    await this.#discard();
    const code = error instanceof HeedError && error.code;
    // Remove invalid cached files, so that the next load fetches them again.
    if (code === 'INVALID_FILE' && this.#used.size > 0 && this.#fetched.size === 0) {
      const removed = keysOf(this.record).map((key) => this.store.remove(key));
      await Promise.allSettled([this.store.removeRecord(this.store.nameOf(this.folder)), ...removed]);
    }
    const isMixed = this.#used.size > 0 && (this.#fetched.size > 0 || this.#changed !== null);
    return !this.refresh && isMixed && code !== false && (code !== 'NETWORK' || error === this.#changed);
  }
}

function changed(url: string): HeedError {
  return new HeedError('NETWORK', `${url}: the file changed while the folder was read. Load it again`);
}

/**
 * Checks a file while it arrives: parses JSON files, and the header of weights, which specifies the file's size. Other
 * files are not checked.
 */
function checkOf(path: string, name: string) {
  const isWeights = path.endsWith('.safetensors');
  const isJson = path.endsWith('.json');
  let start: Uint8Array = new Uint8Array();
  const parts: Uint8Array[] = [];
  const check = {
    bytes: 0,
    add(chunk: Uint8Array): void {
      check.bytes += chunk.length;
      if (isJson) parts.push(chunk);
      else if (isWeights && (start.length < 8 || start.length < headerEnd(start, name, null)))
        start = concatenate(Uint8Array, [start, chunk]);
    },
    /** @throws HeedError INVALID_FILE */
    end(): void {
      if (isWeights) parseHeader(start.subarray(8, headerEnd(start, name, check.bytes)), name, check.bytes);
      else if (isJson) parseJson(concatenate(Uint8Array, parts), name);
    },
  };
  return check;
}
