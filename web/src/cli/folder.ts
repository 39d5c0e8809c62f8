/** Writes folders completely or not at all, and stores the state of a training until its folder has been written. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { removeIfEmpty } from '../base/own-files.js';
import { dispose } from '../base/platform.js';
import { folderWriter, writeWhole as writeInto } from '../folders/index.js';
import {
  invalid,
  makeFolderOf,
  namesIn,
  removeOwn,
  requireWritable,
  statusOf,
  writeWhole,
  writing,
} from '../node/index.js';

/** Called before anything is computed. @throws HeedError if `path` cannot become a new folder */
export function requireNew(path: string): void {
  const status = statusOf(path);
  const expected = 'a new or empty folder';
  if (status && !status.isDirectory()) throw invalid('--out', expected, `'${path}', which is a file`);
  if (status && namesIn(path).length > 0) throw invalid('--out', expected, `'${path}', which has files in it`);
  requireWritable(dirname(resolve(path)));
}

/** Writes a folder completely or not at all. Returns its number of bytes. */
export async function writeFolder(path: string, files: Readonly<Record<string, Uint8Array>>): Promise<number> {
  const writer = await folderWriter(path);
  try {
    for (const [name, bytes] of Object.entries(files)) await writeInto(writer, name, bytes);
    await writer.commit();
  } catch (error) {
    await writer.abort();
    throw error;
  }
  return Object.values(files).reduce((sum, { length }) => sum + length, 0);
}

/** Upper bound of random seeds. */
const SEEDS = 2 ** 31;

const ABOUT = 'training.json';
const CHECKPOINT = 'checkpoint.safetensors';

/** The content of training.json: the seed, and the process that trains. Version 0.2.0 wrote the seed alone. */
interface About {
  seed: number;
  host?: string;
  process?: number;
  /** When the process started, where the system says so: ids of processes are used again. */
  started?: string;
}

function aboutAt(path: string): About | null {
  try {
    const about = JSON.parse(readFileSync(path, 'utf8')) as About;
    const { seed, host, process, started, ...others } = about;
    const isOwn =
      Number.isSafeInteger(seed) &&
      (process === undefined ? (host ?? started) === undefined : Number.isInteger(process));
    return isOwn && Object.keys(others).length === 0 ? about : null;
  } catch {
    return null;
  }
}

const isAbout = (path: string) => aboutAt(path) !== null;

/** The start of a process of this machine, as a boot and a time after it; undefined where Linux's /proc is missing. */
export function startOf(id: number): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const status = readFileSync(`/proc/${id}/stat`, 'latin1');
    return `${boot} ${status.slice(status.lastIndexOf(')')).split(' ')[20]}`; // a program's name may have spaces
  } catch {
    return undefined;
  }
}

/** Whether a process of this machine runs, as far as can be told. `started`: its start, if it is known. */
function isRunning(id: number, started: string | undefined): boolean {
  const found = startOf(id);
  if (started !== undefined && found !== undefined && started !== found) return false;
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** The content of training.json in a folder; null if there is none. @throws HeedError if others use the folder */
function aboutOf(out: string, folder: string): About | null {
  const status = statusOf(folder);
  if (!status) return null;
  const names = status.isDirectory() ? namesIn(folder) : [];
  const path = join(folder, ABOUT);
  const before = names.includes(ABOUT) ? aboutAt(path) : null;
  if (status.isDirectory() && (names.length === 0 || before)) {
    const { seed, host, process: id, started } = before ?? {};
    const isElsewhere = id !== undefined && id !== process.pid && host === hostname() && isRunning(id, started);
    if (!isElsewhere) return before;
    const hint = `If that process is another program, write {"seed":${seed}} to '${path}'`;
    const got = `'${out}', for which process ${id} does. ${hint}`;
    throw invalid('--out', 'a folder for which no other process trains', got);
  }
  const name = names.find((each) => each !== CHECKPOINT) ?? CHECKPOINT;
  const found = status.isDirectory() ? `which has ${name}, a file that heed did not write` : 'which is a file';
  const expected = `a name for which '${out}.training' is free: it stores the state of the training`;
  throw invalid('--out', expected, `'${folder}', ${found}. Choose another --out, or move it away`);
}

/**
 * The stored state of a training in the folder `<out>.training`: the seed and the process in training.json, and the
 * last checkpoint. It also keeps two processes from training for the same folder.
 */
export class TrainingState implements Disposable {
  readonly seed: number;
  /** The checkpoint to continue from. */
  readonly resume: Uint8Array | undefined;
  readonly #folder: string;
  readonly #about: string;
  readonly #weights: string;
  readonly #before: About | null;
  /** Whether this run, or the one that it continues, made the folder. */
  #madeFolder = false;
  #hasBegun = false;
  /** Whether the checkpoint is this run's, or the one from which it continues. */
  #ownsCheckpoint: boolean;

  /**
   * Makes no files.
   *
   * @throws HeedError if the folder has other files than the state of a training, if another process trains, or if the
   *   state of an interrupted training exists and `resume` is false or `seed` is another one
   */
  constructor(out: string, resume: boolean, seed: number | undefined) {
    this.#folder = `${resolve(out)}.training`;
    this.#about = join(this.#folder, ABOUT);
    this.#weights = join(this.#folder, CHECKPOINT);
    this.#before = aboutOf(out, this.#folder);
    this.#ownsCheckpoint = this.#before !== null && existsSync(this.#weights);
    const before = this.#ownsCheckpoint ? this.#before : null;
    if (before && !resume)
      throw invalid(
        '--out',
        'a new folder',
        `'${out}', whose training was interrupted. Continue it with --resume, or remove '${this.#folder}'`,
      );
    if (before && seed !== undefined && seed !== before.seed)
      throw invalid('--seed', `${before.seed}, the seed of the interrupted training`, String(seed));
    this.seed = before?.seed ?? seed ?? Math.floor(Math.random() * SEEDS);
    this.resume = before ? new Uint8Array(readFileSync(this.#weights)) : undefined;
  }

  /**
   * Writes training.json. If there is no state, the first of two processes wins.
   *
   * @throws HeedError if another process was first
   */
  begin(): void {
    const before = this.#before;
    makeFolderOf(this.#folder);
    this.#madeFolder =
      before !== null || writing(this.#folder, () => mkdirSync(this.#folder, { recursive: true })) !== undefined;
    const started = startOf(process.pid);
    const about: About = { seed: this.seed, host: hostname(), process: process.pid, ...(started && { started }) };
    const text = `${JSON.stringify(about)}\n`;
    try {
      if (!writeWhole(this.#about, text, before ? isAbout : undefined)) throw this.#foreign(this.#about);
    } catch (error) {
      if (!before) this.#removeFolder();
      throw error;
    }
    this.#hasBegun = true;
    process.once('exit', () => this[dispose]()); // a signal may end the process within a call
  }

  /** Replaces the checkpoint atomically, so that an incomplete one is never read. */
  keep(bytes: Uint8Array): void {
    makeFolderOf(this.#weights);
    if (!writeWhole(this.#weights, bytes, () => this.#ownsCheckpoint)) throw this.#foreign(this.#weights);
    this.#ownsCheckpoint = true;
  }

  /** Deletes the state, after the trained folder has been written. */
  remove(): void {
    if (this.#ownsCheckpoint) removeOwn(this.#weights, () => true);
    this.#removeAbout();
  }

  /** Deletes the state if there is nothing to continue from. */
  [dispose](): void {
    if (this.#hasBegun && !existsSync(this.#weights)) this.#removeAbout();
  }

  #removeAbout(): void {
    this.#hasBegun = false;
    removeOwn(this.#about, isAbout);
    this.#removeFolder();
  }

  #removeFolder(): void {
    if (this.#madeFolder) writing(this.#folder, () => removeIfEmpty(this.#folder));
  }

  #foreign(path: string) {
    return invalid('--out', 'a folder for which only this process trains', `'${path}', which another one has written`);
  }
}
