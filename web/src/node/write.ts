/** Writes files completely or not at all. Failures to write are reported as a HeedError. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { HeedError } from '../index.js';

/** Error codes after which nothing else can be written, either. */
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG'];

const AGAIN = 'run the same command again';

/**
 * The error for a file or folder that cannot be written. `next`: what the user should do after freeing space on a full
 * disk.
 */
export function unwritable(path: string, cause: unknown, next = AGAIN): HeedError {
  const { code, message, syscall } = cause as NodeJS.ErrnoException;
  const hint = FULL.includes(String(code))
    ? `The disk is full. Free space and ${next}`
    : syscall === 'link' && (code === 'EPERM' || code === 'ENOTSUP')
      ? 'The folder must be on a file system that has hard links'
      : 'Choose a folder in which files can be made and deleted';
  return new HeedError('INVALID_FILE', `${path}: cannot be written (${message}). ${hint}`, { cause });
}

/** Runs `body`, which writes to `path`, and converts its errors to a HeedError. */
export function writing<T>(path: string, body: () => T, next = AGAIN): T {
  try {
    return body();
  } catch (cause) {
    throw cause instanceof HeedError ? cause : unwritable(path, cause, next);
  }
}

/**
 * Writes all of `bytes` at offset `at` of the file, by default at its current position. A single write call may write
 * only some of the bytes, for example on an almost full disk.
 */
export function writeAll(file: number, bytes: Uint8Array, at: number | null = null): void {
  for (let done = 0; done < bytes.length; ) {
    const count = fs.writeSync(file, bytes, done, bytes.length - done, at === null ? null : at + done);
    if (count === 0)
      throw Object.assign(new Error('ENOSPC: no byte was written'), { code: 'ENOSPC', syscall: 'write' });
    done += count;
  }
}

/** Deletes a file if it exists. */
export function remove(path: string): void {
  writing(path, () => fs.rmSync(path, { force: true }));
}

/** A random suffix for names that no other process uses. */
export const uniqueSuffix = () => randomBytes(6).toString('hex');

/**
 * Writes a file atomically: readers see all of it or nothing. Without `replace`, an existing file is kept and the
 * result is false.
 */
export function writeWhole(path: string, content: string | Uint8Array, { replace = false } = {}): boolean {
  const temporary = `${path}.tmp-${uniqueSuffix()}`;
  return writing(path, () => {
    try {
      const file = fs.openSync(temporary, 'wx');
      try {
        writeAll(file, typeof content === 'string' ? Buffer.from(content) : content);
        fs.fsyncSync(file);
      } finally {
        fs.closeSync(file);
      }
      return publish(temporary, path, replace);
    } finally {
      fs.rmSync(temporary, { force: true });
    }
  });
}

/**
 * Renames a complete and synced file to its final name. Without `replace`, an existing file is kept and the result is
 * false.
 */
export function publish(temporary: string, path: string, replace = false): boolean {
  try {
    if (replace) fs.renameSync(temporary, path);
    else fs.linkSync(temporary, path);
  } catch (error) {
    // The file may exist because a process crashed between publishing the two files of a part.
    const { code } = error as NodeJS.ErrnoException;
    if (!replace && (code === 'EEXIST' || (code === 'ENOENT' && fs.existsSync(path)))) return false;
    throw error;
  }
  if (!replace) fs.rmSync(temporary, { force: true });
  syncFolder(dirname(path));
  return true;
}

/** Makes renames durable. On systems that cannot sync a folder, the file's own sync must suffice. */
function syncFolder(folder: string): void {
  try {
    const handle = fs.openSync(folder, 'r');
    try {
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
  } catch (error) {
    if (!['EISDIR', 'EINVAL', 'EPERM', 'ENOTSUP'].includes(String((error as NodeJS.ErrnoException).code))) throw error;
  }
}

/**
 * Throws if files cannot be created in a folder, or in its nearest existing parent. Called before anything is computed;
 * leaves no files behind.
 */
export function requireWritable(folder: string): void {
  let existing = resolve(folder);
  writing(folder, () => {
    while (!fs.statSync(existing, { throwIfNoEntry: false }) && dirname(existing) !== existing)
      existing = dirname(existing);
    fs.rmdirSync(fs.mkdtempSync(join(existing, '.heed-')));
  });
}

/** Creates the folder that will contain a file. */
export function makeFolderOf(path: string): void {
  writing(path, () => fs.mkdirSync(dirname(resolve(path)), { recursive: true }));
}
