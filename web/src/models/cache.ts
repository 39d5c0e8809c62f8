/**
 * Files of the net, kept: in the browser's Cache API, or in a folder in Node. Nothing is kept that was not received whole and found to be what it should be, and a cache that is full
 * or not there never stands in the way of a load.
 */
import { guarded, HeedError } from '../error.js';
import { nodeModule } from '../platform.js';
import { parseJson } from './config.js';
import type { Integrity } from './integrity.js';
import { headerLength, parseHeader } from './safetensors.js';
import { fromStream, joined, type ModelFolder, type OpenFile, openPath } from './source.js';

/** true: the browser's cache storage, in Node `~/.cache/heed`; a string: the name of the former, or another folder. */
export type CacheOption = boolean | string;

interface Store {
  get(key: string): Promise<OpenFile | null>;
  /** Takes a file's chunks; what is not committed is not kept. */
  writer(key: string, size: number | null): Promise<Writer>;
  remove(key: string): Promise<void>;
}

interface Writer {
  write(chunk: Uint8Array): Promise<void>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

/** `folder`, whose files are kept when they were read to their end; null where there is nothing to keep them in. */
export async function cachedFolder(
  folder: ModelFolder,
  cache: CacheOption,
  integrity: Integrity,
): Promise<ModelFolder> {
  const store = await openStore(cache).catch(() => null);
  if (!store) return folder;
  const keyOf = (path: string) => {
    const url = guarded('source', () => new URL(path, folder.label)); // nothing lies below a blob: or data: URL
    // A file whose digest the caller names is another than the one that lay there before.
    const digest = integrity.of(path);
    if (digest !== null) url.searchParams.set('sha256', digest);
    return url.href;
  };
  const get = (path: string) => store.get(keyOf(path)).catch(() => null);
  const taken = new Set<string>();
  async function open(path: string, options: { required?: boolean }): Promise<OpenFile | null> {
    const key = keyOf(path);
    const kept = await get(path);
    if (kept) {
      taken.add(key);
      return integrity.checked(path, { ...kept, name: new URL(path, folder.label).href });
    }
    try {
      const file = await folder.open(path, options);
      return file && { ...file, chunks: () => keeping(file, path, key, store!) };
    } catch (error) {
      // Without a connection, a folder that is kept (every one has this file) is complete but for files that it never had.
      const offline = error instanceof HeedError && error.code === 'NETWORK';
      if (offline && !options.required && (await get('config.json'))) return null;
      throw error;
    }
  }
  // Kept files that are not what they should be, or no longer fit the others, are fetched anew by the next load.
  const failed = async (error: unknown) => {
    if (error instanceof HeedError && error.code === 'INVALID_FILE')
      await Promise.allSettled(Array.from(taken, (key) => store.remove(key)));
  };
  return { label: folder.label, open: open as ModelFolder['open'], failed };
}

/** Passes a file's chunks on and keeps them. Whoever reads stops early where the file is wrong, and then it is not kept; nor is it where it ended too soon. */
async function* keeping(file: OpenFile, path: string, key: string, store: Store): AsyncIterable<Uint8Array> {
  const check = path.endsWith('.safetensors') ? new WeightsCheck(file.name) : new JsonCheck(file.name);
  let writer: Writer | null = await store.writer(key, file.size).catch(() => null);
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
  const fs = nodeModule<typeof import('node:fs')>('fs')?.promises;
  if (fs) return folderStore(fs, typeof cache === 'string' ? cache : undefined);
  if (typeof caches === 'undefined') return null; // an insecure page has none
  return cacheStore(await caches.open(typeof cache === 'string' ? cache : 'heed'));
}

function cacheStore(cache: Cache): Store {
  return {
    async get(key) {
      const response = await cache.match(key);
      if (!response?.body) return null;
      const size = response.headers.get('content-length');
      return { name: key, size: size === null ? null : Number(size), chunks: () => fromStream(response.body!) };
    },
    async writer(key, size) {
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      const stored = cache.put(
        key,
        new Response(readable, size === null ? {} : { headers: { 'content-length': String(size) } }),
      );
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

function folderStore(fs: typeof import('node:fs').promises, given: string | undefined): Store {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  const { createHash, randomUUID } = nodeModule<typeof import('node:crypto')>('crypto')!;
  const folder = given ?? join(nodeModule<typeof import('node:os')>('os')!.homedir(), '.cache', 'heed');
  const place = (key: string) => join(folder, createHash('sha256').update(key).digest('hex'));
  return {
    async get(key) {
      const file = await openPath(place(key));
      return typeof file === 'string' ? null : file;
    },
    async writer(key) {
      await fs.mkdir(folder, { recursive: true });
      // Under a name of its own until it is whole: other processes may be at it, too.
      const part = `${place(key)}.${randomUUID()}`;
      const handle = await fs.open(part, 'wx');
      return {
        async write(chunk) {
          await handle.writeFile(chunk);
        },
        async commit() {
          await handle.close();
          await fs.rename(part, place(key));
        },
        async abort() {
          await handle.close();
          await fs.rm(part, { force: true });
        },
      };
    },
    async remove(key) {
      await fs.rm(place(key), { force: true });
    },
  };
}
