/** Writes files completely or not at all. Failures to write are reported as a HeedError. */
import * as fs from 'node:fs';
import { dirname, resolve } from 'node:path';
import * as own from '../base/own-files.js';
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
 * Writes a file atomically: readers see all of it or nothing. An existing file is kept, and the result is false, unless
 * `isOwn` recognizes it as one that heed has written and may replace.
 */
export const writeWhole = (path: string, content: string | Uint8Array, isOwn?: own.IsOwn): boolean =>
  writing(path, () => own.writeWhole(path, content, isOwn));

/** Deletes a file if it exists and `isOwn` recognizes it. Returns whether it was deleted. */
export const removeOwn = (path: string, isOwn: own.IsOwn): boolean => writing(path, () => own.removeOwn(path, isOwn));

/**
 * Throws if files cannot be created in a folder, or in its nearest existing parent. Called before anything is computed;
 * leaves no files behind.
 */
export function requireWritable(folder: string): void {
  let existing = resolve(folder);
  writing(folder, () => {
    while (!fs.statSync(existing, { throwIfNoEntry: false }) && dirname(existing) !== existing)
      existing = dirname(existing);
    own.tryFolder(existing);
  });
}

export function makeFolderOf(path: string): void {
  writing(path, () => fs.mkdirSync(dirname(resolve(path)), { recursive: true }));
}
