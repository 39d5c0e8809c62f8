/** Files on disk, in Node. */
import { HeedError } from '../base/error.js';
import { nodeModule, type SignalLike } from '../base/platform.js';
import { type Found, missing, type Source, unreadable } from './files.js';

/** Node's file system; null elsewhere. */
export const fs = nodeModule<typeof import('node:fs')>('fs')?.promises;

/** The status of the file or folder at `path`; null if there is none. @throws HeedError if that cannot be determined */
export async function statusOf(path: string): Promise<import('node:fs').Stats | null> {
  try {
    return await fs!.stat(path);
  } catch (cause) {
    if (/^(ENOENT|ENOTDIR|ENAMETOOLONG|ERR_INVALID_ARG_VALUE)$/.test(String((cause as { code?: unknown }).code)))
      return null;
    throw unreadable(path, cause);
  }
}

/** A source that reads the files of a folder on disk. */
export function pathSource(folder: string): Source {
  const { join } = nodeModule<typeof import('node:path')>('path')!;
  return {
    open: (path, signal) => openPath(join(folder, path), signal),
    list: (path) => fs!.readdir(join(folder, path)).catch(() => []),
  };
}

export async function openPath(path: string, signal?: SignalLike): Promise<Found> {
  try {
    const status = await statusOf(path);
    if (status?.isFile()) return { name: path, size: status.size, chunks: () => pathChunks(path, status.size, signal) };
    return missing(path);
  } catch (error) {
    return { status: 'unreachable', error: error as HeedError };
  }
}

async function* pathChunks(
  path: string,
  size: number,
  signal?: SignalLike,
): AsyncGenerator<Uint8Array, void, boolean | undefined> {
  let buffer: Uint8Array | undefined;
  let handle: Awaited<ReturnType<typeof import('node:fs/promises').open>> | undefined;
  try {
    handle = await fs!.open(path);
    for (;;) {
      signal?.throwIfAborted();
      buffer ??= new Uint8Array(Math.min(Math.max(size, 1 << 12), 1 << 20));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length);
      if (bytesRead === 0) return;
      if (!(yield buffer.subarray(0, bytesRead))) buffer = undefined;
    }
  } catch (cause) {
    if (cause instanceof HeedError || signal?.aborted) throw cause;
    throw unreadable(path, cause);
  } finally {
    await handle?.close();
  }
}
