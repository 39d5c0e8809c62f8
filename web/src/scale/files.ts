/** Files that appear as a whole or not at all, and the errors of a disk. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { HeedError } from '../index.js';

/** Codes of errors after which writing anything else is pointless. */
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG'];

/** The error for a file that cannot be written. */
export function unwritable(path: string, cause: unknown): HeedError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const hint = FULL.includes(String(code))
    ? 'The disk is full. Free space and run the same command again: finished parts are kept'
    : code === 'EPERM' || code === 'ENOTSUP'
      ? 'The folder must be on a file system that has hard links'
      : 'Choose a folder in which files can be made and deleted';
  return new HeedError('INVALID_FILE', `${path}: cannot be written (${message}). ${hint}`, { cause });
}

/** Deletes a file, if it is there. */
export function remove(path: string): void {
  try {
    fs.rmSync(path, { force: true });
  } catch (cause) {
    throw unwritable(path, cause);
  }
}

/** A part of a name that no other process uses. */
export const uniqueSuffix = () => randomBytes(6).toString('hex');

/** Writes a small file as a whole: a reader sees all of it or none. `replace`: otherwise a file that is there stays, and the result is false. */
export function writeWhole(folder: string, name: string, text: string, { replace = false } = {}): boolean {
  const path = join(folder, name);
  const temporary = `${path}.tmp-${uniqueSuffix()}`;
  try {
    try {
      const file = fs.openSync(temporary, 'wx');
      try {
        fs.writeFileSync(file, text);
        fs.fsyncSync(file);
      } finally {
        fs.closeSync(file);
      }
      return publish(folder, temporary, path, replace);
    } finally {
      fs.rmSync(temporary, { force: true });
    }
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    throw unwritable(path, cause);
  }
}

/** Gives a complete and synced file its name. Without `replace`, whoever is second keeps what is there, and gets false. */
export function publish(folder: string, temporary: string, path: string, replace = false): boolean {
  try {
    if (replace) fs.renameSync(temporary, path);
    else fs.linkSync(temporary, path);
  } catch (error) {
    // A process that died between the two files of a part has published the first one.
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' || (code === 'ENOENT' && fs.existsSync(path))) return false;
    throw error;
  }
  if (!replace) fs.rmSync(temporary, { force: true });
  syncFolder(folder);
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
