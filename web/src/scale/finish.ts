/** Finishes a plan: counts the rows of all parts and reports what is missing. */
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { parquetMetadataAsync } from 'hyparquet';
import { abortable } from '../base/event-loop.js';
import { callback, signal as optionalSignal, readOptions, type Schema } from '../base/options.js';
import { type IsOwn, setAside, uniqueSuffix } from '../base/own-files.js';
import { HeedError } from '../index.js';
import {
  NPY_HEADER_BYTES,
  namesIn,
  npyShape,
  pieces,
  readRange,
  removeOwn,
  requireServers,
  splitLines,
  statusOf,
  writeWhole,
  writing,
} from '../node/index.js';
import { VectorTable } from './database.js';
import {
  failureName,
  findParts,
  firstLines,
  isFailure,
  isSuccess,
  type Manifest,
  partNames,
  readManifest,
  requireOwn,
  SUCCESS,
} from './manifest.js';
import { isPartFile, PARQUET_KEY, rowStart, storedWidth } from './part.js';
import { type Signal, serverSchema } from './plan-options.js';
import { ChunkQueue } from './queue.js';
import { readFailure } from './work.js';

export interface FinishOptions {
  /** URL of a queue (see `WorkOptions.queue`). Missing chunks are added to it; if none is missing, it is deleted. */
  queue?: string | undefined;
  /** Seconds to wait for the servers of `queue` and `to` while they do not answer. Default 20. */
  queueTimeout?: number | undefined;
  /** URL of a PostgreSQL database (see `WorkOptions.to`), whose rows are counted, too. */
  to?: string | undefined;
  /** The database table for `to`. Default 'embeddings'. */
  table?: string | undefined;
  /** Called with the number of rows counted so far. */
  onProgress?: ((rows: number) => void) | undefined;
  signal?: Signal | undefined;
}

export interface FinishResult {
  /** Whether every row exists. If so, the file `_SUCCESS` has been written. */
  complete: boolean;
  /** Number of rows in all parts. */
  rows: number;
  /** Number of rows without a vector. */
  errors: number;
  /** Number of complete parts. */
  parts: number;
  /** Indices of the chunks without a complete part or, with `to`, without rows in the table. */
  missing: number[];
  /** The missing chunks that failed, with their errors. */
  failed: { chunk: number; error: string }[];
  /**
   * Incomplete parts, with what was wrong. Their chunks count as missing. Their files have been renamed, except for
   * those that do not begin as heed writes them.
   */
  damaged: { part: string; error: string }[];
}

const schema = {
  ...serverSchema,
  onProgress: callback<NonNullable<FinishOptions['onProgress']>>,
  signal: optionalSignal,
} satisfies Schema<FinishOptions>;

/**
 * Counts the rows of a plan's parts. If none is missing, writes `_SUCCESS` and deletes temporary files of crashed
 * processes, which are recognized by their content; otherwise reports what is missing.
 *
 * @example
 * const { complete, rows, missing } = await finishEmbedding('vectors');
 * @throws HeedError as `workEmbedding`
 */
export async function finishEmbedding(folder: string, given?: FinishOptions): Promise<FinishResult> {
  const options = readOptions('finishEmbedding', schema, given);
  requireServers(options, (name) => `finishEmbedding.${name}`);
  const { queue, to, signal, onProgress } = options;
  const manifest = readManifest(folder);
  requireOwn(folder, [[SUCCESS, isSuccess]]);
  signal?.throwIfAborted();
  const result: FinishResult = { complete: false, rows: 0, errors: 0, parts: 0, missing: [], failed: [], damaged: [] };
  const { done, failed } = findParts(folder, manifest);
  const lines = firstLines(manifest.chunks);
  const open = () => VectorTable.open(to!, options.table ?? 'embeddings', manifest, signal, options.queueTimeout);
  const table = to === undefined ? null : await open();
  try {
    const inTable = table && (await abortable(table.done(), signal));
    for (const chunk of manifest.chunks.keys()) {
      signal?.throwIfAborted();
      const counted = done.has(chunk) ? await countPart(folder, manifest, chunk, lines[chunk]!) : null;
      if (typeof counted === 'string') {
        const part = partNames(manifest, chunk).at(-1)!;
        const foreign = setPartAside(folder, manifest, chunk);
        const hint = foreign ? `. heed did not write ${foreign}: move it away` : '';
        result.damaged.push({ part, error: `${counted}${hint}` });
      }
      if (counted === null || typeof counted === 'string' || inTable?.has(chunk) === false) {
        result.missing.push(chunk);
        if (failed.has(chunk)) result.failed.push(readFailure(folder, chunk));
        continue;
      }
      result.parts++;
      result.rows += counted.rows;
      result.errors += counted.errors;
      onProgress?.(result.rows);
      await new Promise(setImmediate); // lets pending signals be handled
    }
    const isWhole = table !== null && result.missing.length === 0;
    const count = isWhole ? await countRows(table, open, manifest, signal) : manifest.rows;
    if (count !== manifest.rows)
      result.damaged.push({
        part: options.table ?? 'embeddings',
        error: `expected ${manifest.rows} rows of the plan's files, got ${count}`,
      });
  } finally {
    await table?.close();
  }
  result.complete = result.missing.length === 0 && result.damaged.length === 0;
  if (queue !== undefined) await updateQueue(queue, manifest, result.missing, options);
  signal?.throwIfAborted();
  if (!result.complete) {
    removeOwn(join(folder, SUCCESS), isSuccess);
    return result;
  }
  const { rows, errors, parts } = result;
  writeWhole(join(folder, SUCCESS), `${JSON.stringify({ rows, errors, parts })}\n`, isSuccess);
  requireOwn(folder, [[SUCCESS, isSuccess]]);
  removeTemporary(folder, manifest);
  return result;
}

/**
 * The number of rows of the plan's files in the table. The server may take long to count, so another connection, which
 * `open` makes, tells whether it is still there.
 */
async function countRows(
  table: VectorTable,
  open: () => Promise<VectorTable>,
  { files }: Manifest,
  signal: Signal | undefined,
): Promise<number> {
  const other = await open();
  try {
    // The watch settles first only if the server no longer answers.
    return (await abortable(Promise.race([table.count(files), other.watch()]), signal)) as number;
  } finally {
    void other.close(); // not awaited, because the server may not answer
  }
}

/** Deletes the temporary files of crashed processes, which are empty or begin as heed writes them. */
function removeTemporary(folder: string, manifest: Manifest): void {
  for (const temporary of namesIn(folder)) {
    const [, name, digits] = /^(_SUCCESS|part-(\d+)\.[\w.]+)\.tmp-[0-9a-f]+$/.exec(temporary) ?? [];
    if (name === undefined) continue;
    const path = join(folder, temporary);
    const chunk = Number(digits);
    const isNamed = /\.tmp-[0-9a-f]{12}$/.test(temporary);
    const remove = (isOwn: IsOwn) => removeOwn(path, () => (isNamed && statusOf(path)?.size === 0) || isOwn(path));
    if (name === SUCCESS) remove(isSuccess);
    else if (chunk >= manifest.chunks.length) continue;
    else if (name === failureName(chunk)) remove(isFailure);
    else if (partNames(manifest, chunk).includes(name)) remove(() => isPartFile(path, name, manifest, chunk));
  }
}

async function updateQueue(
  url: string,
  manifest: Manifest,
  missing: number[],
  { queueTimeout: timeout, signal }: Pick<FinishOptions, 'queueTimeout' | 'signal'>,
): Promise<void> {
  const queue = await ChunkQueue.open(url, manifest, { timeout, signal });
  try {
    await abortable(missing.length > 0 ? queue.add(missing) : queue.delete(), signal);
  } finally {
    await queue.close();
  }
}

/**
 * Renames the files of an incomplete part, so that its chunk is embedded again. Returns the name of a file that is left
 * in its place, because heed did not write it.
 */
function setPartAside(folder: string, manifest: Manifest, chunk: number): string | undefined {
  const suffix = uniqueSuffix();
  let foreign: string | undefined;
  for (const name of partNames(manifest, chunk)) {
    const path = join(folder, name);
    const isOwn = () => isPartFile(path, name, manifest, chunk);
    if (!fs.existsSync(path)) continue;
    if (!writing(path, () => setAside(path, `${path}.damaged-${suffix}`, isOwn))) foreign = name;
  }
  return foreign;
}

interface Counted {
  rows: number;
  errors: number;
}

/**
 * Counts a part's rows and checks that their line numbers are consecutive. Returns the counts or an error. Memory does
 * not depend on the part's length.
 */
async function countPart(folder: string, manifest: Manifest, chunk: number, first: number): Promise<Counted | string> {
  const { rows, file } = manifest.chunks[chunk]!;
  const paths = partNames(manifest, chunk).map((name) => join(folder, name));
  const lost = paths.find((path) => statusOf(path) === undefined);
  if (lost !== undefined) return `expected ${basename(lost)} next to it, got no such file`;
  const found = manifest.parts === 'parquet' ? await parquetLines(paths[0]!) : jsonLines(paths[0]!, file);
  if (typeof found === 'string') return found;
  if (found.lines.length !== rows) return `expected ${rows} rows, got ${found.lines.length}`;
  const wrong = found.lines.findIndex((line, n) => line !== first + n);
  if (wrong >= 0) return `row ${wrong + 1}: expected line ${first + wrong} of ${file}, got ${found.lines[wrong]}`;
  const matrix = manifest.parts === 'npy' ? matrixError(paths[1]!, manifest, rows) : null;
  return matrix ?? { rows, errors: found.errors };
}

interface Found {
  lines: number[];
  errors: number;
}

/** Upper bound on the length of a row that heed writes: ids come from lines of at most 1 MiB. */
const MAX_ROW_BYTES = 64 << 20;
/**
 * Character before the closing brace of an error row, which ends in its message. Rows with vectors end in a bracket
 * there.
 */
const QUOTE = 34;

function jsonLines(path: string, file: string): Found | string {
  const head = rowStart(file);
  const found: Found = { lines: [], errors: 0 };
  for (const { bytes, ended } of splitLines(pieces(path), MAX_ROW_BYTES)) {
    const row = bytes ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length) : Buffer.alloc(0);
    if (bytes && !ended) return `expected complete lines, got ${row.length} bytes without a line's end`;
    const isOwn = row.subarray(0, head.length).equals(head);
    const line = isOwn && /^\d+(?=[,}])/.exec(row.toString('latin1', head.length, head.length + 20));
    if (!line) {
      const got = JSON.stringify(row.toString('utf8', 0, 60));
      return `row ${found.lines.length + 1}: expected a row of ${file}, got ${got}`;
    }
    found.lines.push(Number(line[0]));
    if (row.at(-2) === QUOTE && row.includes(',"error":"')) found.errors++;
  }
  return found;
}

/** Reads the file's footer only, not its rows. */
async function parquetLines(path: string): Promise<Found | string> {
  const byteLength = fs.statSync(path).size;
  const slice = (first: number, end = byteLength) => readRange(path, first, end - first).buffer;
  try {
    const { num_rows, key_value_metadata: pairs } = await parquetMetadataAsync({ byteLength, slice });
    const own = JSON.parse(pairs!.find(({ key }) => key === PARQUET_KEY)!.value!) as { line: number; errors: number };
    return { lines: Array.from({ length: Number(num_rows) }, (_, n) => own.line + n), errors: own.errors };
  } catch (error) {
    if (error instanceof HeedError) throw error;
    return `expected a Parquet file of heed, got one that cannot be read (${(error as Error).message})`;
  }
}

function matrixError(path: string, manifest: Manifest, rows: number): string | null {
  const width = storedWidth(manifest);
  const shape = npyShape(readRange(path, 0, NPY_HEADER_BYTES));
  const { size } = fs.statSync(path);
  const bytes = NPY_HEADER_BYTES + rows * width * (manifest.output === 'float32' ? 4 : 1);
  if (shape?.[0] !== rows || shape[1] !== width) return `expected shape [${rows}, ${width}], got ${shape}`;
  return size === bytes ? null : `expected ${bytes} bytes, got ${size}`;
}

export interface EmbeddingStatus {
  /** Number of chunks in the plan. */
  chunks: number;
  /** Number of rows in the plan. */
  rows: number;
  /** Number of existing parts. */
  partsDone: number;
  /** Number of rows in the existing parts. */
  rowsDone: number;
  /** The chunks that failed, with their errors. */
  failed: { chunk: number; error: string }[];
  /** Rows per second of all workers, from the times of the most recent parts; null if there are too few parts. */
  rate: number | null;
  /** Estimated seconds until all rows are done; null if `rate` is null. */
  remaining: number | null;
  /** Whether `finishEmbedding` has found the plan complete. */
  finished: boolean;
}

/** Number of most recent parts from which the rate is computed. */
const RECENT = 100;

/**
 * Reports the progress of a plan over all its workers.
 *
 * @example
 * const status = embeddingStatus('vectors');
 */
export function embeddingStatus(folder: string): EmbeddingStatus {
  const manifest = readManifest(folder);
  const { done, failed } = findParts(folder, manifest);
  const rowsOf = (chunks: Iterable<number>) =>
    [...chunks].reduce((sum, chunk) => sum + manifest.chunks[chunk]!.rows, 0);
  const times = [...done]
    .map((chunk) => ({ chunk, time: timeOf(join(folder, partNames(manifest, chunk).at(-1)!)) }))
    .sort((a, b) => a.time - b.time)
    .slice(-RECENT);
  // The rows of the first of these parts were embedded before the measured interval. If a clock was set back, the rate
  // is null rather than wrong.
  const seconds = times.length < 2 ? 0 : (times.at(-1)!.time - times[0]!.time) / 1000;
  const rate = seconds > 0 ? rowsOf(times.slice(1).map(({ chunk }) => chunk)) / seconds : null;
  const rowsDone = rowsOf(done);
  return {
    chunks: manifest.chunks.length,
    rows: manifest.rows,
    partsDone: done.size,
    rowsDone,
    failed: [...failed].map((chunk) => readFailure(folder, chunk)),
    rate,
    remaining: rowsDone === manifest.rows ? 0 : rate && (manifest.rows - rowsDone) / rate,
    finished: isSuccess(join(folder, SUCCESS)),
  };
}

const timeOf = (path: string) => fs.statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
