/**
 * A cache for the folders of models from the network. A folder is kept as a whole: what a load has read is kept once the load has succeeded, and replaces what was kept before. Later
 * loads then make no request, not even for files that the server does not have. A cache that is full or unavailable never makes a load fail.
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
 * @internal `source`, whose files are kept as those of `folder`, a URL. `refresh`: asks the server whether kept files have changed; if it cannot be asked, the load fails, and the files
 * remain.
 */
export async function cachedSource(
  source: Source,
  urlOf: UrlOf,
  folder: string,
  { cache, refresh }: { cache: CacheOption; refresh: boolean },
  integrity: Integrity,
): Promise<Source> {
  const store = cache === false ? null : await openStore(cache).catch(() => null);
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

/** A folder's record, if all its files are there, as browsers may remove some, and have the digests that are expected. */
async function usableRecord(store: Store, folder: string, integrity: Integrity): Promise<FolderRecord | null> {
  const record = await store.record(folder);
  const there = await Promise.all(keysOf(record).map((key) => store.has(key)));
  const hasDigest = ([path, file]: [string, KeptFile | null]) =>
    !file?.key || integrity.of(path) === null || integrity.of(path) === file.digest;
  return record && there.every(Boolean) && Object.entries(record).every(hasDigest) ? record : null;
}

/** One load of a folder: what it takes from the record, what it fetches, and what it keeps at its end. */
class CachedLoad {
  readonly #source: Source;
  readonly #urlOf: UrlOf;
  readonly #store: Store;
  readonly #folder: string;
  readonly #record: FolderRecord | null;
  readonly #refresh: boolean;
  readonly #integrity: Integrity;
  /** The paths that this load has opened and that are as in the record. */
  readonly #used = new Set<string>();
  /** What the server has said that the record does not. */
  readonly #fetched = new Map<string, KeptFile | null>();
  readonly #writers = new Set<Writer>();
  /** The keys of files that have been written whole. */
  readonly #written: string[] = [];
  #cannotWrite = false;
  /** Whether fetched files may be of another revision than the others. */
  #isUnverified = false;
  /** What is known to have changed since it was kept or fetched. */
  #changed: HeedError | null = null;

  constructor(
    source: Source,
    urlOf: UrlOf,
    store: Store,
    folder: string,
    record: FolderRecord | null,
    refresh: boolean,
    integrity: Integrity,
  ) {
    this.#source = source;
    this.#urlOf = urlOf;
    this.#store = store;
    this.#folder = folder;
    this.#record = record;
    this.#refresh = refresh;
    this.#integrity = integrity;
  }

  async open(path: string, signal?: SignalLike): Promise<Found> {
    const { protocol, href } = this.#urlOf(path)!;
    if (!/^https?:$/.test(protocol)) return this.#source.open(path, signal);
    const own = this.#fetched.get(path);
    const again = own?.key ? await this.#store.open(own.key).catch(() => null) : null;
    if (again) return { ...again, name: href };
    const kept = this.#record?.[path];
    if (kept === null && !this.#refresh) return this.#absent(path, href);
    if (kept && !this.#refresh) return this.#kept(path, kept, signal);
    const found = await this.#source.open(path, signal, kept?.tag ?? undefined);
    if (isFile(found)) return this.#keeping(path, href, found);
    if (found.status === 'unchanged') return this.#kept(path, kept!, signal);
    if (found.status === 'missing') this.#note(path, null);
    return found;
  }

  /** Says that a file with this tag is read by ranges, without `open`. */
  note(path: string, tag: string | null): void {
    this.#note(path, { url: this.#urlOf(path)!.href, key: null, bytes: null, tag, digest: null });
  }

  #note(path: string, file: KeptFile | null): void {
    const isAgain = this.#fetched.has(path);
    const before = isAgain ? this.#fetched.get(path) : this.#record?.[path];
    if (before === null ? file === null : before?.tag && before.tag === file?.tag) {
      if (!isAgain) this.#used.add(path); // as in the record
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

  /** A file of the record. One that has not been read so far is fetched when it is read. */
  async #kept(path: string, file: KeptFile, signal: SignalLike | undefined): Promise<OpenFile> {
    const { url: name, key, bytes, tag } = file;
    this.#used.add(path);
    if (key === null) return { name, size: bytes, tag, chunks: () => this.#later(path, name, signal) };
    const open = await this.#store.open(key).catch(() => null);
    if (!open) {
      this.#changed = invalid(name, 'the file in the cache', 'none, as it was removed meanwhile', 'NOT_FOUND');
      throw this.#changed;
    }
    return this.#integrity.checked(path, { ...open, name, size: open.size ?? bytes, tag });
  }

  async *#later(path: string, url: string, signal: SignalLike | undefined): AsyncIterable<Uint8Array> {
    const found = await this.#source.open(path, signal);
    if (!isFile(found)) throw found.error;
    yield* this.#keeping(path, url, found).chunks();
  }

  /** A file from the server, which is written to the store as it is read. */
  #keeping(path: string, url: string, file: OpenFile): OpenFile {
    const { tag = null, size: bytes } = file;
    const about = { url, key: null, bytes, tag, digest: this.#integrity.of(path) };
    this.#note(path, about);
    return { ...file, chunks: () => this.#passing(path, file, about) };
  }

  /** Passes a file's chunks on and writes them. A file that is not read to its end, ends too soon or is invalid is not kept. */
  async *#passing(path: string, file: OpenFile, about: KeptFile): AsyncIterable<Uint8Array> {
    const key = newKey(about.url);
    const cannotWrite = () => {
      this.#cannotWrite = true;
      return null;
    };
    let writer = this.#cannotWrite ? null : await this.#store.writer(key, file).catch(cannotWrite);
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
   * To be called when the load has succeeded: keeps what it has read. Before that, the server is asked whether all files are still as they were read, so that files of two revisions are
   * never kept together.
   * @throws HeedError if they are not
   */
  async complete(signal?: SignalLike): Promise<void> {
    if (this.#changed) throw this.#changed;
    if (this.#fetched.size === 0) return;
    const record: FolderRecord = { ...this.#record, ...Object.fromEntries(this.#fetched) };
    const isKnown = !this.#isUnverified || (await this.#verify(record, signal));
    signal?.throwIfAborted();
    if (isKnown && !this.#cannotWrite && keysOf(record).length > 0) await this.#replace(record).catch(() => {});
    await this.#discard();
    this.#fetched.clear();
  }

  /** Removes files that have changed and that this load has not read from the record. False: the server does not say whether one has changed. */
  async #verify(record: FolderRecord, signal: SignalLike | undefined): Promise<boolean> {
    const paths = Object.keys(record);
    if (paths.length === 1) return true;
    let isKnown = true;
    const verify = async (path: string) => {
      const file = record[path]!;
      const [isUsed, isFetched] = [this.#used.has(path), this.#fetched.has(path)];
      // A record of URLs may name only some of the folder's files.
      const found = this.#urlOf(path) !== null && (await this.#current(path, file, isFetched, signal));
      if (found === true) return;
      if (isUsed && found) throw found;
      if (isUsed || (isFetched && !found)) {
        this.#changed = changed(this.#urlOf(path)!.href);
        throw this.#changed;
      }
      if (isFetched) isKnown = false;
      else delete record[path];
    };
    await Promise.all(paths.map(verify));
    return isKnown;
  }

  /**
   * Whether the server has a file as it was; an error if it cannot be asked. A file without a tag counts as unchanged during the load that has fetched it, and as long as no other file is
   * fetched.
   */
  async #current(
    path: string,
    file: KeptFile | null,
    isFetched: boolean,
    signal: SignalLike | undefined,
  ): Promise<boolean | HeedError> {
    if (file?.tag === null) return isFetched || [...this.#fetched.values()].every((fetched) => fetched === null);
    const found = await this.#source.open(path, signal, file?.tag);
    if (isFile(found)) {
      await found.close?.();
      return false;
    }
    return found.status === 'unreachable' ? found.error : found.status === (file ? 'unchanged' : 'missing');
  }

  async #replace(record: FolderRecord): Promise<void> {
    const before = keysOf(await this.#store.record(this.#folder));
    await this.#store.setRecord(this.#folder, record);
    const now = new Set(keysOf(record));
    const others = [...before, ...this.#written.splice(0)].filter((key) => !now.has(key));
    await Promise.all(others.map((key) => this.#store.remove(key)));
    await this.#store.sweep();
  }

  /** Removes what has been written and is not in the record. */
  async #discard(): Promise<void> {
    const writers = [...this.#writers].map((writer) => writer.abort());
    await Promise.allSettled([...writers, ...this.#written.splice(0).map((key) => this.#store.remove(key))]);
  }

  /** To be called when the load has failed. True: kept files may be of another revision than those that were fetched, and a load with `refresh` may succeed. */
  async failed(error: unknown): Promise<boolean> {
    await this.#discard();
    const code = error instanceof HeedError && error.code;
    // Kept files that are invalid are fetched again by the next load.
    if (code === 'INVALID_FILE' && this.#used.size > 0 && this.#fetched.size === 0) {
      const removed = keysOf(this.#record).map((key) => this.#store.remove(key));
      await Promise.allSettled([this.#store.removeRecord(this.#store.nameOf(this.#folder)), ...removed]);
    }
    const isMixed = this.#used.size > 0 && (this.#fetched.size > 0 || this.#changed !== null);
    return !this.#refresh && isMixed && code !== false && (code !== 'NETWORK' || error === this.#changed);
  }
}

function changed(url: string): HeedError {
  const hint = 'Load it again';
  return invalid(url, 'files of one revision', 'a file that changed while the folder was read', 'NETWORK', { hint });
}

/** Checks a file as it arrives: JSON as a whole, of weights the header, which says how long the file is. Of other files nothing is known. */
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
