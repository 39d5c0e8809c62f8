/** Writes folders that are there whole or not at all. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { invalid } from './error.js';

/** @throws HeedError if there is something at `path` */
export function requireNew(path: string): void {
  if (existsSync(path) && readdirSync(path).length > 0)
    throw invalid('--out', 'a new or empty folder', `'${path}', which has files in it`);
}

/** Writes the files next to `path`, and then gives their folder its name. */
export function writeFolder(path: string, files: Readonly<Record<string, Uint8Array>>): number {
  const target = resolve(path);
  mkdirSync(dirname(target), { recursive: true });
  const partial = mkdtempSync(join(dirname(target), `.${basename(target)}-`));
  try {
    for (const [name, bytes] of Object.entries(files)) {
      mkdirSync(dirname(join(partial, name)), { recursive: true });
      writeFileSync(join(partial, name), bytes);
    }
    if (existsSync(target)) rmdirSync(target); // empty
    renameSync(partial, target);
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    throw error;
  }
  return Object.values(files).reduce((sum, { length }) => sum + length, 0);
}
