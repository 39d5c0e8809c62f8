/**
 * Files of the network, kept: in the browser's Cache API, or in a folder in Node. No file is kept that was not received whole and found to be what it should be, and a
 * cache that is full or not there never stands in the way of a load.
 */
import { HeedError } from '../error.js';
import { type Found, isFile, joined, type OpenFile, streamChunks } from '../io/files.js';
import type { Integrity } from '../io/integrity.js';
import { fs, openPath } from '../io/node.js';
import { nodeModule, type SignalLike } from '../platform.js';
import { parseJson } from './config.js';
import { headerLength, parseHeader } from './safetensors.js';

/** true: the browser's cache storage, in Node `~/.cache/heed`; a string: the name of the former, or another folder. */
export type CacheOption = boolean | string;

/** Files by their URLs; `path` is the file's name in the model's folder. */
export interface UrlFiles {
  open(url: URL, path: string, signal?: SignalLike): Promise<Found>;
  /** To be called where the load that opened them failed. */
  failed?(error: unknown): Promise<void>;
}

interface Store {
  get(key: string): Promise<OpenFile | null>;
  /** Takes a file's chunks; what is not committed is not kept. */
  writer(key: string, file: Pick<OpenFile, 'size' | 'expectedSize'>): Promise<Writer>;
  remove(key: string): Promise<void>;
}

interface Writer {
  write(chunk: Uint8Array): Promise<void>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

/**
 * `files`, which are kept when they were read to their end. That a file is missing is kept as well, as an entry without bytes: where the server cannot be reached, a file
 * is absent only if the server said so before.
 */
export async function cachedFiles(files: UrlFiles, cache: CacheOption, integrity: Integrity): Promise<UrlFiles> {
  const store = cache === false ? null : await openStore(cache).catch(() => null);
  if (!store) return files;
  const taken = new Set<string>();
  return {
    async open(url, path, signal) {
      if (!/^https?:$/.test(url.protocol)) return files.open(url, path, signal);
      const key = keyOf(url, integrity.of(path));
      const kept = await store.get(key).catch(() => null);
      const isMissing = kept?.size === 0;
      if (kept && !isMissing) {
        taken.add(key);
        return integrity.checked(path, { ...kept, name: url.href });
      }
      const found = await files.open(url, path, signal);
      if (isFile(found)) return { ...found, chunks: () => keeping(found, path, key, store) };
      if (found.status === 'unreachable') return isMissing ? { ...found, status: 'missing' } : found;
      if (!isMissing)
        await store
          .writer(key, { size: 0 })
          .then((writer) => writer.commit())
          .catch(() => {});
      return found;
    },
    // Kept files that are not what they should be, or no longer fit the others, are fetched anew by the next load.
    async failed(error) {
      if (error instanceof HeedError && error.code === 'INVALID_FILE')
        await Promise.allSettled(Array.from(taken, (key) => store.remove(key)));
    },
  };
}

/** The whole address, as a query may choose the file. A file whose digest the caller names is another than the one that lay there before. */
function keyOf(url: URL, digest: string | null): string {
  const key = new URL(url.href);
  key.hash = '';
  return digest === null ? key.href : `${key.href}${key.search ? '&' : '?'}sha256=${digest}`;
}

/** Passes a file's chunks on and keeps them. Whoever reads stops early where the file is wrong, and then it is not kept; nor is it where it ended too soon. */
async function* keeping(file: OpenFile, path: string, key: string, store: Store): AsyncIterable<Uint8Array> {
  const check = path.endsWith('.safetensors') ? new WeightsCheck(file.name) : new JsonCheck(file.name);
  let writer: Writer | null = await store.writer(key, file).catch(() => null);
  let whole = false;
  try {
    for await (const chunk of file.chunks()) {
      check.add(chunk);
      try {
        await writer?.write(chunk);
      } catch {
        await writer?.abort().catch(() => {}); // full: go on without it
        writer = null;
      }
      yield chunk;
    }
    check.end();
    whole = true;
  } finally {
    await (whole ? writer?.commit() : writer?.abort())?.catch(() => {});
  }
}

class JsonCheck {
  private readonly parts: Uint8Array[] = [];

  constructor(private readonly name: string) {}

  add(chunk: Uint8Array): void {
    this.parts.push(chunk);
  }

  end(): void {
    parseJson(joined(this.parts), this.name);
  }
}

/** Looks at the header alone, which says how long the file is. */
class WeightsCheck {
  private start = new Uint8Array(0);
  private received = 0;

  constructor(private readonly name: string) {}

  add(chunk: Uint8Array): void {
    this.received += chunk.length;
    const needed = this.start.length < 8 ? 8 : 8 + headerLength(this.start, this.name, null);
    if (this.start.length < needed) this.start = joined([this.start, chunk]);
  }

  end(): void {
    const header = 8 + headerLength(this.start, this.name, this.received);
    parseHeader(this.start.subarray(8, header), this.name, this.received);
  }
}

async function openStore(cache: CacheOption): Promise<Store | null> {
  if (fs) return folderStore(typeof cache === 'string' ? cache : undefined);
  if (typeof caches === 'undefined') return null; // an insecure page has none
  return cacheStore(await caches.open(typeof cache === 'string' ? cache : 'heed'));
}

/** The header for a size that is not certain. */
const EXPECTED = 'x-expected-length';

function cacheStore(cache: Cache): Store {
  return {
    async get(key) {
      const response = await cache.match(key);
      if (!response) return null;
      const { headers, body } = response;
      const length = (header: string) => (headers.has(header) ? Number(headers.get(header)) : null);
      // Some engines give no body back where it has no bytes.
      const size = body ? length('content-length') : 0;
      return { name: key, size, expectedSize: length(EXPECTED), chunks: () => streamChunks(key, body!) };
    },
    async writer(key, { size, expectedSize }) {
      const headers = new Headers();
      if (size !== null) headers.set('content-length', String(size));
      else if (expectedSize) headers.set(EXPECTED, String(expectedSize));
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      const stored = cache.put(key, new Response(readable, { headers }));
      stored.catch(() => {}); // the writes fail then, too
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
  };
}

function folderStore(given: string | undefined): Store {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { createHash, randomUUID } = nodeModule<typeof import('node:crypto')>('crypto')!;
  const folder = given ?? join(nodeModule<typeof import('node:os')>('os')!.homedir(), '.cache', 'heed');
  const place = (key: string) => join(folder, createHash('sha256').update(key).digest('hex'));
  return {
    async get(key) {
      const file = await openPath(place(key));
      return isFile(file) ? file : null;
    },
    async writer(key) {
      await fs!.mkdir(folder, { recursive: true });
      // Under a name of its own until it is whole: other processes may be at it, too.
      const part = `${place(key)}.${randomUUID()}`;
      const handle = await fs!.open(part, 'wx');
      return {
        async write(chunk) {
          await handle.writeFile(chunk);
        },
        async commit() {
          await handle.close();
          await fs!.rename(part, place(key));
        },
        async abort() {
          await handle.close();
          await fs!.rm(part, { force: true });
        },
      };
    },
    async remove(key) {
      await fs!.rm(place(key), { force: true });
    },
  };
}
