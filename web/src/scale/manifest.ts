/**
 * The plan of an embedding job that many processes share: `manifest.json`, written once and never changed. Each chunk
 * is a range of bytes of one file of the corpus and becomes one part. The existing parts are the only record of
 * progress.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Build, EmbedOptions, VectorOutput } from '../index.js';
import { OUTPUTS } from '../models/index.js';
import { invalid, invalidFile, namesIn } from '../node/index.js';

/**
 * Format of the parts. For `npy`, the rows' files, lines and ids are in `part-00000.rows.jsonl`,
 * `part-00001.rows.jsonl` and so on.
 */
export type PartFormat = 'jsonl' | 'npy' | 'parquet';

/** How texts become vectors, as in `EmbedOptions`. Missing settings default to those of the model's folder. */
export interface EmbeddingSettings extends Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt' | 'normalize'> {
  /**
   * Embeds the texts with the model's prompt for queries or for documents, as `embedQuery` and `embedDocument` do.
   * Default: with the model's default prompt, as `embed` does.
   */
  role?: 'query' | 'document' | undefined;
}

/** A range of whole lines of one file, which is one job and becomes one part. */
export interface Chunk {
  /** Path of the file, as in the manifest's `files`. */
  readonly file: string;
  /** Offset of the range's first byte. */
  readonly first: number;
  /** Length of the range in bytes. */
  readonly bytes: number;
  /** SHA-256 of the range's bytes, in hexadecimal. */
  readonly sha256: string;
  /** Number of lines in the range, which is the number of rows of the part. */
  readonly rows: number;
}

/** The content of `manifest.json`. */
export interface Manifest {
  /** The version of the format. */
  readonly version: 1;
  /** Version of heed. Other versions may compute different vectors. */
  readonly heed: string;
  /** The build of heed's WebAssembly module that all workers run. */
  readonly build: Build;
  /** SHA-256 of the WebAssembly module. */
  readonly wasm: string;
  /** The model's folder or file (null for the model in the package), and the hash of its files. */
  readonly model: { readonly source: string | null; readonly sha256: string };
  /** The type of the weights. */
  readonly dtype: 'fp32' | 'q8';
  /** The settings of `embed`. */
  readonly embedding: EmbeddingSettings;
  /** Number of entries of a vector. */
  readonly width: number;
  /** Hash of the vectors of a few fixed texts. A machine that computes different ones is rejected. */
  readonly probe: string;
  /** The type of the vectors. */
  readonly output: VectorOutput;
  /** The format of the parts. */
  readonly parts: PartFormat;
  /** The folder to which the files' paths are relative. */
  readonly root: string;
  /** Key of the text in JSON lines. */
  readonly field: string;
  /** Key of the text's id in JSON lines. */
  readonly id: string;
  /** The files of the corpus. */
  readonly files: readonly {
    readonly file: string;
    readonly bytes: number;
    readonly format: 'lines' | 'jsonl';
    /** Absent for UTF-8. */
    readonly encoding?: 'utf-16le' | 'utf-16be' | undefined;
  }[];
  /** Number of lines in all files. */
  readonly rows: number;
  /** The chunks, in the order of the corpus. */
  readonly chunks: readonly Chunk[];
}

export const manifestPath = (folder: string) => join(folder, 'manifest.json');

/**
 * @throws HeedError NOT_FOUND if the folder has no plan; INVALID_FILE if the plan does not have version 1 of the format
 */
export function readManifest(folder: string): Manifest {
  const path = manifestPath(folder);
  let text: string;
  try {
    text = fs.readFileSync(path, 'utf8');
  } catch (cause) {
    const got = `'${folder}' (${(cause as Error).message}). Plan with \`heed corpus plan FILES --out DIR\``;
    throw invalid('folder', 'the folder of a plan, with manifest.json', got, 'NOT_FOUND', { cause });
  }
  let manifest: Manifest;
  try {
    manifest = JSON.parse(text) as Manifest;
  } catch (cause) {
    throw invalid(path, 'a manifest of heed', 'a file that is not JSON', 'INVALID_FILE', { cause });
  }
  if (manifest?.version !== 1) throw invalidFile(path, 'a manifest of version 1', `version ${manifest?.version}`);
  const files = new Set(Array.isArray(manifest.files) ? manifest.files.map(({ file }) => file) : []);
  const isChunk = ({ file, first, bytes, sha256, rows }: Partial<Chunk>) =>
    files.has(file!) &&
    [first, bytes, rows].every((n) => Number.isSafeInteger(n) && n! >= 0) &&
    typeof sha256 === 'string';
  if (!Array.isArray(manifest.chunks) || !manifest.chunks.every(isChunk))
    throw invalidFile(
      path,
      'files, and chunks { file, first, bytes, sha256, rows } of them',
      'a manifest without them',
    );
  if (!OUTPUTS.includes(manifest.output))
    throw invalidFile(path, `an output of ${OUTPUTS.join(', ')}`, `${manifest.output}`);
  return manifest;
}

/** Line number, from 1, of each chunk's first line in its file. */
export function firstLines(chunks: readonly Chunk[]): number[] {
  const next = new Map<string, number>();
  return chunks.map(({ file, rows }) => {
    const first = next.get(file) ?? 1;
    next.set(file, first + rows);
    return first;
  });
}

export const rowsOf = ({ chunks }: Manifest, some: Iterable<number>): number =>
  [...some].reduce((sum, chunk) => sum + chunks[chunk]!.rows, 0);

/** Names of a chunk's files, without the folder. The last one is written last, so if it exists, the others do, too. */
export function partNames({ parts }: Manifest, chunk: number): string[] {
  const name = `part-${String(chunk).padStart(5, '0')}`;
  return parts === 'npy' ? [`${name}.rows.jsonl`, `${name}.npy`] : [`${name}.${parts}`];
}

/** Name of the file with the error of a chunk that failed. */
export const failureName = (chunk: number) => `part-${String(chunk).padStart(5, '0')}.failed`;

/** Whether heed has written the file with the error of a failed chunk, judged by its content. */
export const isFailure = (path: string): boolean =>
  hasKeys(path, { chunk: Number.isSafeInteger, error: (value) => typeof value === 'string' });

export function readFailure(folder: string, chunk: number): { chunk: number; error: string } {
  try {
    return JSON.parse(fs.readFileSync(join(folder, failureName(chunk)), 'utf8')) as { chunk: number; error: string };
  } catch (cause) {
    return { chunk, error: `unknown (${(cause as Error).message})` };
  }
}

/** The file that marks a plan as complete. */
export const SUCCESS = '_SUCCESS';

/** Whether heed has written a file `_SUCCESS`, judged by its content. */
export const isSuccess = (path: string): boolean =>
  hasKeys(path, { rows: Number.isSafeInteger, errors: Number.isSafeInteger, parts: Number.isSafeInteger });

/** Whether a file is a JSON object with these keys alone, whose values satisfy the predicates. */
function hasKeys(path: string, keys: Record<string, (value: unknown) => boolean>): boolean {
  try {
    const values = JSON.parse(fs.readFileSync(path, 'utf8')) as Record<string, unknown>;
    const names = Object.keys(values);
    return names.length === Object.keys(keys).length && names.every((name) => keys[name]?.(values[name]));
  } catch {
    return false;
  }
}

/**
 * Throws if a file that heed would replace or delete exists with other content. `names`: names in the folder, with the
 * test of their content.
 */
export function requireOwn(folder: string, names: Iterable<[name: string, isOwn: (path: string) => boolean]>): void {
  for (const [name, isOwn] of names) {
    const path = join(folder, name);
    if (fs.existsSync(path) && !isOwn(path))
      throw invalidFile(path, 'no file, or one that heed has written', 'a file with other content. Move it away');
  }
}

/** The indices of the chunks whose part exists, and of those that failed. Lists the folder once for all chunks. */
export function findParts(folder: string, manifest: Manifest) {
  const found = { done: new Set<number>(), failed: new Set<number>() };
  for (const name of namesIn(folder)) {
    const [, digits, ending] = /^part-(\d+)\.(\w+)$/.exec(name) ?? [];
    const chunk = Number(digits);
    if (digits === undefined || chunk >= manifest.chunks.length) continue;
    if (ending === 'failed') found.failed.add(chunk);
    else if (ending === manifest.parts) found.done.add(chunk);
  }
  for (const chunk of found.done) found.failed.delete(chunk);
  return found;
}
