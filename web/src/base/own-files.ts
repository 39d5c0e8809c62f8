/**
 * Files and folders that heed makes, in Node. Only this module deletes, renames, cuts or replaces files: those that this
 * process has made, and those that the caller recognizes by their content.
 */
import { nodeModule } from './platform.js';

const fs = nodeModule<typeof import('node:fs')>('fs')!;
const path = nodeModule<typeof import('node:path')>('path')!;
const crypto = nodeModule<typeof import('node:crypto')>('crypto')!;

/** Whether heed has written the file at this path, judged by its content. */
export type IsOwn = (path: string) => boolean;

/** A random suffix for names that no other process uses. */
export const uniqueSuffix = (): string => crypto.randomBytes(6).toString('hex');

const codeOf = (error: unknown) => String((error as NodeJS.ErrnoException).code);

/**
 * Writes all of `bytes` at offset `at` of an open file, by default at its current position. A single write call may
 * write only some of the bytes, for example on an almost full disk.
 */
export function writeAll(file: number, bytes: Uint8Array, at: number | null = null): void {
  for (let done = 0; done < bytes.length; ) {
    const count = fs.writeSync(file, bytes, done, bytes.length - done, at === null ? null : at + done);
    if (count === 0) throw full();
    done += count;
  }
}

/** A file that this process has made. */
export class OwnFile {
  readonly path: string;
  #file: number | null;
  /** Number of calls to the system that use the file. Its number must not be freed for another file before they end. */
  #pending = 0;

  /**
   * Makes a file.
   *
   * @throws the system's error, EEXIST if there is a file at this path
   */
  constructor(path: string) {
    this.path = path;
    this.#file = fs.openSync(path, 'wx+');
  }

  /** Writes all of `bytes` at offset `at`, by default after the bytes that were written before. */
  write(bytes: Uint8Array, at: number | null = null): void {
    writeAll(this.#file!, bytes, at);
  }

  /** As `write`, without blocking the thread. Rejects if the file is closed meanwhile. */
  async writeLater(bytes: Uint8Array, at: number | null = null): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const position = at === null ? null : at + done;
      const file = this.#file;
      if (file === null) throw Object.assign(new Error('EBADF: the file is closed'), { code: 'EBADF' });
      this.#pending++;
      const count = await new Promise<number>((resolve, reject) =>
        fs.write(file, bytes, done, bytes.length - done, position, (error, count) =>
          error ? reject(error) : resolve(count),
        ),
      ).finally(() => {
        if (--this.#pending === 0 && this.#file === null) fs.closeSync(file);
      });
      if (count === 0) throw full();
      done += count;
    }
  }

  /** Drops what is after the first `bytes` bytes. */
  cut(bytes: number): void {
    fs.ftruncateSync(this.#file!, bytes);
  }

  /** Some systems report a full disk only here. */
  sync(): void {
    fs.fsyncSync(this.#file!);
  }

  /** Closes the file, after pending calls of `writeLater`. */
  close(): void {
    const file = this.#file;
    this.#file = null;
    if (file !== null && this.#pending === 0) fs.closeSync(file);
  }

  /** Closes the file and gives it a name that no file has. Returns false, and deletes the file, if there is one. */
  publish(to: string): boolean {
    this.close();
    try {
      fs.linkSync(this.path, to);
    } catch (error) {
      // A process may have crashed between publishing the two files of a part.
      const isThere = codeOf(error) === 'EEXIST' || (codeOf(error) === 'ENOENT' && fs.existsSync(to));
      if (!isThere) throw error;
      this.remove();
      return false;
    }
    this.remove();
    return true;
  }

  /**
   * Closes the file and gives it another name. Replaces a file of this name only if it is heed's own; otherwise returns
   * false and deletes this file.
   */
  replace(to: string, isOwn: IsOwn): boolean {
    this.close();
    if (fs.existsSync(to) && !isOwn(to)) {
      this.remove();
      return false;
    }
    fs.renameSync(this.path, to);
    return true;
  }

  /** Closes and deletes the file. */
  remove(): void {
    this.close();
    fs.rmSync(this.path, { force: true });
  }
}

const full = () => Object.assign(new Error('ENOSPC: no byte was written'), { code: 'ENOSPC', syscall: 'write' });

/**
 * Writes a file atomically: readers see all of it or nothing. An existing file is kept, unless `isOwn` recognizes it.
 * Returns whether the file was written.
 */
export function writeWhole(to: string, content: string | Uint8Array, isOwn?: IsOwn): boolean {
  const file = new OwnFile(`${to}.tmp-${uniqueSuffix()}`);
  try {
    file.write(typeof content === 'string' ? new TextEncoder().encode(content) : content);
    file.sync();
    const isWritten = isOwn ? file.replace(to, isOwn) : file.publish(to);
    if (isWritten) syncFolder(path.dirname(to));
    return isWritten;
  } catch (error) {
    file.remove();
    throw error;
  }
}

/** Deletes a file if it exists and is heed's own. Returns whether it was deleted. */
export function removeOwn(file: string, isOwn: IsOwn): boolean {
  if (!fs.statSync(file, { throwIfNoEntry: false })?.isFile() || !isOwn(file)) return false;
  fs.rmSync(file, { force: true });
  return true;
}

/** Deletes a file, which may be large, without blocking the thread. The caller has recognized it. */
export const removeRecognized = (file: string): Promise<void> => fs.promises.rm(file, { force: true });

/** Gives one of heed's own files another name, which no file has. Returns false if the file is not heed's own. */
export function setAside(file: string, to: string, isOwn: IsOwn): boolean {
  if (!fs.existsSync(file) || !isOwn(file)) return false;
  fs.renameSync(file, to);
  return true;
}

/** Deletes a folder if it is empty. Returns whether it was deleted. */
export function removeIfEmpty(folder: string): boolean {
  try {
    fs.rmdirSync(folder);
    return true;
  } catch (error) {
    if (['ENOTEMPTY', 'EEXIST', 'ENOENT', 'ENOTDIR', 'EPERM', 'EBUSY'].includes(codeOf(error))) return false;
    throw error;
  }
}

/** A new folder that this process fills with files. */
export class OwnFolder {
  readonly path: string;
  readonly #files: OwnFile[] = [];

  /** @throws the system's error, EEXIST if there is something at this path */
  constructor(folder: string) {
    fs.mkdirSync(path.dirname(folder), { recursive: true });
    fs.mkdirSync(folder);
    this.path = folder;
  }

  /** Makes a file at a path below the folder. */
  file(name: string): OwnFile {
    const target = path.join(this.path, name);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    const file = new OwnFile(target);
    this.#files.push(file);
    return file;
  }

  /**
   * Gives the folder another name.
   *
   * @throws the system's error if there is a file or a folder with files
   */
  publish(to: string): void {
    try {
      fs.renameSync(this.path, to);
    } catch (error) {
      // Some systems cannot replace an empty folder.
      if (!removeIfEmpty(to)) throw error;
      fs.renameSync(this.path, to);
    }
  }

  /** Deletes the folder and the files that were made in it. */
  remove(): void {
    const folders = new Set<string>();
    for (const file of this.#files) {
      file.remove();
      for (let at = path.dirname(file.path); at !== this.path; at = path.dirname(at)) folders.add(at);
    }
    for (const folder of [...folders].sort((a, b) => b.length - a.length)) removeIfEmpty(folder);
    removeIfEmpty(this.path);
  }
}

/** Makes renames in a folder durable. On systems that cannot sync a folder, the file's own sync must suffice. */
export function syncFolder(folder: string): void {
  try {
    const handle = fs.openSync(folder, 'r');
    try {
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
  } catch (error) {
    if (!['EISDIR', 'EINVAL', 'EPERM', 'ENOTSUP'].includes(codeOf(error))) throw error;
  }
}

/** Makes a folder and deletes it again. @throws the system's error if nothing can be made in `folder` */
export function tryFolder(folder: string): void {
  fs.rmdirSync(fs.mkdtempSync(path.join(folder, '.heed-')));
}
