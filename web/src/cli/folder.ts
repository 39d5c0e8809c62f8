/** Writes folders completely or not at all, and stores the state of a training until its folder has been written. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { folderWriter, writeWhole as writeInto } from '../folders/index.js';
import { invalid, makeFolderOf, namesIn, requireWritable, statusOf, writeWhole } from '../node/index.js';

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

/** The stored state of a training: its seed and its last checkpoint, in a folder next to that of the result. */
export class TrainingState {
  readonly seed: number;
  /** The checkpoint to continue from. */
  readonly resume: Uint8Array | undefined;
  readonly #folder: string;

  /** @throws HeedError if the state of an interrupted training exists and `resume` is false */
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
      throw invalid('--seed', `${before}, the seed of the interrupted training`, String(seed));
    this.seed = before ?? seed ?? Math.floor(Math.random() * SEEDS);
    this.resume = isThere ? new Uint8Array(readFileSync(weights!)) : undefined;
  }

  /** Replaces the checkpoint atomically, so that an incomplete one is never read. */
  keep(bytes: Uint8Array): void {
    const [about, weights] = ['training.json', 'checkpoint.safetensors'].map((name) => join(this.#folder, name));
    makeFolderOf(about!);
    try {
      writeWhole(about!, `${JSON.stringify({ seed: this.seed })}\n`, { replace: true });
      writeWhole(weights!, bytes, { replace: true });
    } catch (error) {
      if (!existsSync(weights!)) this.remove(); // nothing to continue from
      throw error;
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
