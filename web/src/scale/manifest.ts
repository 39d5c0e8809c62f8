/**
 * The plan of an embedding that many processes share: `manifest.json`, written once and never changed. Each chunk is a range of bytes of one file of the corpus, and becomes one
 * part; the parts that exist are the only record of what is done.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Build, Pooling } from '../index.js';
import { invalid, invalidFile, namesIn } from '../node/index.js';

/** The format of the parts. `npy` parts have their rows' files and lines in `part-00000.rows.jsonl`. */
export type PartFormat = 'jsonl' | 'npy' | 'parquet';

/**
 * What is stored of a vector: its numbers; int8 with one scale per row (value = int8 * scale); or one bit per entry, 1 where it is positive, eight to a byte, the first entry in
 * the highest bit.
 */
export type VectorType = 'fp32' | 'int8' | 'binary';

/** How texts become vectors, as in `EmbedOptions`; what is missing is as in the model's folder. */
export interface EmbeddingSettings {
  pooling?: Pooling | readonly Pooling[];
  dimensions?: number;
  prompt?: string;
  normalize?: boolean;
}

/** A range of whole lines of one file: one job, and one part. */
export interface Chunk {
  /** As in `files` of the manifest. */
  readonly file: string;
  /** The range's first byte. */
  readonly first: number;
  /** The range's length. */
  readonly bytes: number;
  /** Of these bytes, in hexadecimal. */
  readonly sha256: string;
  /** The number of lines, and of the part's rows. */
  readonly rows: number;
}

/** What `manifest.json` says. */
export interface Manifest {
  readonly version: 1;
  /** The version of heed, the build and the hash of its module: others may compute other vectors. */
  readonly heed: string;
  readonly build: Build;
  readonly wasm: string;
  /** The model's folder or file (null: the model in the package), and the hash of its files. */
  readonly model: { readonly source: string | null; readonly sha256: string };
  readonly dtype: 'fp32' | 'q8';
  readonly embedding: EmbeddingSettings;
  /** The number of entries of a vector. */
  readonly width: number;
  /** The hash of the vectors of a few fixed texts. A machine that computes others is refused. */
  readonly probe: string;
  readonly output: VectorType;
  readonly parts: PartFormat;
  /** The folder that the files' paths are relative to. */
  readonly root: string;
  /** The keys of a text and of its id in JSON lines. */
  readonly field: string;
  readonly id: string;
  readonly files: readonly {
    readonly file: string;
    readonly bytes: number;
    readonly format: 'lines' | 'jsonl';
    /** Missing for UTF-8. */
    readonly encoding?: 'utf-16le' | 'utf-16be';
  }[];
  /** The number of lines of all files. */
  readonly rows: number;
  readonly chunks: readonly Chunk[];
}

export const manifestPath = (folder: string) => join(folder, 'manifest.json');

/** @throws HeedError NOT_FOUND if the folder has no plan, INVALID_FILE if it is not one of this version */
export function readManifest(folder: string): Manifest {
  const path = manifestPath(folder);
  let text: string;
  try {
    text = fs.readFileSync(path, 'utf8');
  } catch (cause) {
    const got = `'${folder}' (${(cause as Error).message}). Plan with \`heed embed --plan FILES --out DIR\``;
    throw invalid('folder', 'the folder of a plan, with manifest.json', got, 'NOT_FOUND', cause);
  }
  let manifest: Manifest;
  try {
    manifest = JSON.parse(text) as Manifest;
  } catch (cause) {
    throw invalidFile(path, 'a manifest of heed', 'a file that is not JSON', cause);
  }
  if (manifest?.version !== 1) throw invalidFile(path, 'a manifest of version 1', `version ${manifest?.version}`);
  const files = new Set(Array.isArray(manifest.files) ? manifest.files.map(({ file }) => file) : []);
  const isChunk = ({ file, first, bytes, sha256, rows }: Partial<Chunk>) =>
    files.has(file!) &&
    [first, bytes, rows].every((n) => Number.isSafeInteger(n) && n! >= 0) &&
    typeof sha256 === 'string';
  if (!Array.isArray(manifest.chunks) || !manifest.chunks.every(isChunk))
    throw invalidFile(path, 'files, and chunks { file, first, bytes, sha256, rows } of them', 'other values');
  return manifest;
}

/** The number of each chunk's first line in its file, from 1. */
export function firstLines(chunks: readonly Chunk[]): number[] {
  const next = new Map<string, number>();
  return chunks.map(({ file, rows }) => {
    const first = next.get(file) ?? 1;
    next.set(file, first + rows);
    return first;
  });
}

/** The names of a chunk's files without the folder. The part itself is the last one: when it exists, the others do. */
export function partNames({ parts }: Manifest, chunk: number): string[] {
  const name = `part-${String(chunk).padStart(5, '0')}`;
  return parts === 'npy' ? [`${name}.rows.jsonl`, `${name}.npy`] : [`${name}.${parts}`];
}

/** The file that says why a chunk failed. */
export const failureName = (chunk: number) => `part-${String(chunk).padStart(5, '0')}.failed`;

export interface PartsFound {
  /** The chunks whose part exists. */
  done: Set<number>;
  /** The chunks that failed. */
  failed: Set<number>;
}

/** Reads the folder once, however many chunks there are. */
export function findParts(folder: string, manifest: Manifest): PartsFound {
  const found: PartsFound = { done: new Set(), failed: new Set() };
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
