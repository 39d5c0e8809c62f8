/** Writes folders that are there whole or not at all, and keeps the state of a training until its folder is written. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { invalid } from '../node/error.js';

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
    chmodSync(partial, 0o777 & ~process.umask()); // mkdtemp makes it for its owner alone
    if (existsSync(target)) rmdirSync(target); // empty
    renameSync(partial, target);
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    throw error;
  }
  return Object.values(files).reduce((sum, { length }) => sum + length, 0);
}

/** The largest seed that is drawn. */
const SEEDS = 2 ** 31;

/** What is kept of a training: its seed and its last checkpoint, in a folder next to that of the result. */
export class TrainingState {
  readonly seed: number;
  /** The checkpoint to continue from. */
  readonly resume: Uint8Array | undefined;
  readonly #folder: string;

  /** @throws HeedError if the state of an interrupted training is there, and it is not to be continued */
  constructor(out: string, resume: boolean, seed: number | undefined) {
    this.#folder = `${resolve(out)}.training`;
    const [about, weights] = ['training.json', 'checkpoint.safetensors'].map((name) => join(this.#folder, name));
    const isThere = existsSync(about!) && existsSync(weights!);
    if (isThere && !resume)
      throw invalid(
        '--out',
        'a new folder',
        `'${out}', whose training was interrupted. Continue it with --resume, or remove '${this.#folder}'`,
      );
    const before = isThere ? (JSON.parse(readFileSync(about!, 'utf8')) as { seed: number }).seed : undefined;
    if (before !== undefined && seed !== undefined && seed !== before)
      throw invalid('--seed', `${before}, that of the interrupted training`, String(seed));
    this.seed = before ?? seed ?? Math.floor(Math.random() * SEEDS);
    this.resume = isThere ? new Uint8Array(readFileSync(weights!)) : undefined;
  }

  /** Replaces the checkpoint; a half-written one is never read. */
  keep(bytes: Uint8Array): void {
    mkdirSync(this.#folder, { recursive: true });
    const path = join(this.#folder, 'checkpoint.safetensors');
    writeFileSync(`${path}.partial`, bytes);
    writeFileSync(join(this.#folder, 'training.json'), `${JSON.stringify({ seed: this.seed })}\n`);
    renameSync(`${path}.partial`, path);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
