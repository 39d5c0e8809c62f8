/** Writes files: all bytes or an error, and files that appear as a whole or not at all. What cannot be written is a HeedError. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { HeedError } from '../index.js';

/** Codes of errors after which writing anything else is pointless. */
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG'];

const AGAIN = 'run the same command again';

/** The error for a file or folder that cannot be written. `next`: what to do once a full disk has space. */
export function unwritable(path: string, cause: unknown, next = AGAIN): HeedError {
  const { code, message, syscall } = cause as NodeJS.ErrnoException;
  const hint = FULL.includes(String(code))
    ? `The disk is full. Free space and ${next}`
    : syscall === 'link' && (code === 'EPERM' || code === 'ENOTSUP')
      ? 'The folder must be on a file system that has hard links'
      : 'Choose a folder in which files can be made and deleted';
  return new HeedError('INVALID_FILE', `${path}: cannot be written (${message}). ${hint}`, { cause });
}

/** Runs `body`, which writes to `path`. */
export function writing<T>(path: string, body: () => T, next = AGAIN): T {
  try {
    return body();
  } catch (cause) {
    throw cause instanceof HeedError ? cause : unwritable(path, cause, next);
  }
}

/** Writes all bytes of `bytes`, from position `at` of the file on; by default where it stands. One call of the system may write only a part of them, as on a disk that is almost full. */
export function writeAll(file: number, bytes: Uint8Array, at: number | null = null): void {
  for (let done = 0; done < bytes.length; ) {
    const count = fs.writeSync(file, bytes, done, bytes.length - done, at === null ? null : at + done);
    if (count === 0)
      throw Object.assign(new Error('ENOSPC: no byte was written'), { code: 'ENOSPC', syscall: 'write' });
    done += count;
  }
}

/** Deletes a file, if it is there. */
export function remove(path: string): void {
  writing(path, () => fs.rmSync(path, { force: true }));
}

/** A part of a name that no other process uses. */
export const uniqueSuffix = () => randomBytes(6).toString('hex');

/** Writes a file as a whole: a reader sees all of it or none. `replace`: otherwise a file that is there stays, and the result is false. */
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

/** Gives a complete and synced file its name. Without `replace`, whoever is second keeps what is there, and gets false. */
export function publish(temporary: string, path: string, replace = false): boolean {
  try {
    if (replace) fs.renameSync(temporary, path);
    else fs.linkSync(temporary, path);
  } catch (error) {
    // A process that died between the two files of a part has published the first one.
    const { code } = error as NodeJS.ErrnoException;
    if (!replace && (code === 'EEXIST' || (code === 'ENOENT' && fs.existsSync(path)))) return false;
    throw error;
  }
  if (!replace) fs.rmSync(temporary, { force: true });
  syncFolder(dirname(path));
  return true;
}

/** Makes names durable. Not every system can sync a folder; there, the file's own sync has to do. */
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

/** Finds out, before anything is computed, whether files can be made in a folder, or where it would be made; leaves nothing behind. */
export function requireWritable(folder: string): void {
  let existing = resolve(folder);
  writing(folder, () => {
    while (!fs.statSync(existing, { throwIfNoEntry: false }) && dirname(existing) !== existing)
      existing = dirname(existing);
    fs.rmdirSync(fs.mkdtempSync(join(existing, '.heed-')));
  });
}

/** Makes the folder in which a file is to be. */
export function makeFolderOf(path: string): void {
  writing(path, () => fs.mkdirSync(dirname(resolve(path)), { recursive: true }));
}
