/** Reads a model's files once for all workers of a pool. */
import { FNV_START, fnv } from '../base/fnv.js';
import type { SignalLike } from '../base/platform.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import type { FileRequest } from './protocol.js';

interface SharedFile {
  about: Omit<OpenFile, 'chunks'>;
  chunks: AsyncIterator<Uint8Array>;
  /** Chunks that some workers have not read yet. */
  held: Map<number, { next: Promise<Uint8Array | null>; readers: number }>;
  /** The hash of the bytes read so far. */
  hash: number;
}

export interface FileServer {
  answer(request: FileRequest): Promise<unknown>;
  /**
   * Equal for equal files that are read in the same order. Detects changes, but not attacks; use `integrity` for those.
   */
  fingerprint(): Promise<string>;
  /** Stops reading. */
  close(): void;
}

/** Serves a folder to `readers` workers, which all open the same files and read each chunk once. */
export function serveFiles(folder: ModelFolder, readers: number, signal: SignalLike): FileServer {
  const files = new Map<string, Promise<SharedFile | null>>();

  async function open(path: string, required: boolean): Promise<SharedFile | null> {
    const file = await (folder.open as (...args: unknown[]) => Promise<OpenFile | null>)(path, { required, signal });
    if (!file) return null;
    const { name, size, expectedSize = null } = file;
    return {
      about: { name, size, expectedSize, isReadWhole: true }, // for the fingerprint
      chunks: file.chunks()[Symbol.asyncIterator](),
      held: new Map(),
      hash: FNV_START,
    };
  }

  async function next(file: SharedFile): Promise<Uint8Array | null> {
    const { done, value } = await file.chunks.next();
    if (done) return null;
    file.hash = fnv(value, file.hash);
    return new Uint8Array(value); // a copy, because cloning a view copies its whole buffer
  }

  function take(file: SharedFile, chunk: number): Promise<Uint8Array | null> {
    const held = file.held.get(chunk) ?? { next: next(file), readers };
    file.held.set(chunk, held);
    if (--held.readers === 0) file.held.delete(chunk);
    return held.next;
  }

  return {
    async answer({ path, nth, required, chunk }) {
      const key = `${nth} ${path}`;
      const opening = files.get(key) ?? open(path, required);
      files.set(key, opening);
      const file = await opening;
      return chunk === undefined ? (file?.about ?? null) : take(file!, chunk);
    },
    async fingerprint() {
      // A file that could not be opened was not needed, since loading succeeded.
      const read = [...files].map(async ([key, opening]) => `${key} ${(await opening.catch(() => null))?.hash}`);
      return (await Promise.all(read)).sort().join();
    },
    close() {
      for (const opening of files.values()) opening.then((file) => file?.chunks.return?.()).catch(() => {});
    },
  };
}
