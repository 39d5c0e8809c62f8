/**
 * Writes a model's folder into memory or, in Node, to disk. On disk, the folder appears under its name only when it is
 * complete.
 */
import { describe, HeedError, invalid } from '../base/error.js';
import { OwnFolder } from '../base/own-files.js';
import { nodeModule } from '../base/platform.js';
import { fs, statusOf } from '../io/node.js';
import { requireInside } from '../io/paths.js';

/** Writes a file of known size, whose parts may be written in any order. */
export interface FileWriter {
  write(bytes: Uint8Array, at: number): Promise<void>;
  close(): Promise<void>;
}

export interface FolderWriter {
  file(path: string, size: number): Promise<FileWriter>;
  /** A source for `fromPretrained`, usable before `commit` once all files are closed. */
  readonly source: string | Record<string, Uint8Array>;
  /** Publishes the folder under its name. Resolves to its files by path, or to an empty record if they are on disk. */
  commit(): Promise<Record<string, Uint8Array>>;
  /** Removes everything that has been written. */
  abort(): Promise<void>;
}

/**
 * Creates a writer, for memory if `out` is undefined. Whether two names denote the same file is up to the file system.
 */
export async function folderWriter(out: string | undefined): Promise<FolderWriter> {
  return out === undefined ? memoryWriter() : diskWriter(out);
}

function memoryWriter(): FolderWriter {
  const files: Record<string, Uint8Array> = {};
  return {
    source: files,
    async file(path, size) {
      const bytes = new Uint8Array(size);
      files[requireInside(path)] = bytes;
      return { write: async (part, at) => bytes.set(part, at), close: async () => {} };
    },
    commit: async () => files,
    abort: async () => {},
  };
}

/**
 * Writes to a temporary folder that is renamed at the end, so that a non-empty folder is never modified and an
 * incomplete one never visible.
 */
async function diskWriter(out: string): Promise<FolderWriter> {
  if (!fs) throw invalid('out', 'undefined outside Node', describe(out), 'UNSUPPORTED');
  const { resolve } = nodeModule<typeof import('node:path')>('path')!;
  const folder = resolve(out);
  const requireNew = async () => {
    const status = await statusOf(folder);
    const isEmpty = status?.isDirectory() && (await writing(() => fs!.readdir(folder))).length === 0;
    if (status && !isEmpty) throw invalid('out', "a new folder's path", `'${out}', which exists`);
  };
  const part = `${folder}.${nodeModule<typeof import('node:crypto')>('crypto')!.randomUUID()}`;
  const writing = async <T>(body: () => Promise<T>): Promise<T> => {
    try {
      return await body();
    } catch (cause) {
      if (cause instanceof HeedError) throw cause;
      throw new HeedError('INVALID_ARGUMENT', `out: '${out}' cannot be written (${(cause as Error).message})`, {
        cause,
      });
    }
  };
  await requireNew();
  const made = await writing(async () => new OwnFolder(part));
  return {
    source: part,
    file: (path) =>
      writing(async () => {
        const file = made.file(requireInside(path));
        return {
          write: (bytes, at) => writing(() => file.writeLater(bytes, at)),
          close: () =>
            writing(async () => {
              file.sync(); // some systems report a full disk only here
              file.close();
            }),
        };
      }),
    async commit() {
      await requireNew();
      await writing(async () => made.publish(folder));
      return {};
    },
    abort: async () => made.remove(),
  };
}

/** Writes one file in a single call. */
export async function writeWhole(writer: FolderWriter, path: string, bytes: Uint8Array): Promise<void> {
  const file = await writer.file(path, bytes.length);
  await file.write(bytes, 0);
  await file.close();
}
