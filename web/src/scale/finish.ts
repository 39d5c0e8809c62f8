/** Finishes a plan: counts the rows of all parts and reports what is missing. */
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { parquetMetadataAsync } from 'hyparquet';
import { abortable, turn } from '../base/event-loop.js';
import { readOptions, type Schema } from '../base/options.js';
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
  statusOf,
  writeWhole,
  writing,
} from '../node/index.js';
import { VectorTable } from './database.js';
import { splitLines } from './lines.js';
import {
  failureName,
  findParts,
  firstLines,
  isFailure,
  isSuccess,
  type Manifest,
  partNames,
  readFailure,
  readManifest,
  requireOwn,
  rowsOf,
  SUCCESS,
} from './manifest.js';
import { isPartFile, PARQUET_KEY, rowStart, storedWidth } from './part.js';
import { type ServerOptions, serverSchema } from './plan-options.js';
import { ChunkQueue } from './queue.js';

/** `onProgress` receives the number of rows that have been counted, and of all rows. */
export interface FinishOptions extends ServerOptions {}

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

/**
 * Counts the rows of a plan's parts. If none is missing, writes `_SUCCESS` and deletes temporary files of crashed
 * processes, which are recognized by their content; otherwise reports what is missing.
 *
 * @example
 * const { complete, rows, missing } = await finishEmbedding('vectors');
 * @throws HeedError as `workEmbedding`
 */
export async function finishEmbedding(folder: string, given?: FinishOptions): Promise<FinishResult> {
  const options = readOptions('finishEmbedding', serverSchema satisfies Schema<FinishOptions>, given);
  requireServers(options, (name) => `finishEmbedding.${name}`);
  const { queue, to, signal, onProgress } = options;
  const manifest = readManifest(folder);
  requireOwn(folder, [[SUCCESS, isSuccess]]);
  signal?.throwIfAborted();
  const result: FinishResult = { complete: false, rows: 0, errors: 0, parts: 0, missing: [], failed: [], damaged: [] };
  const { done, failed } = findParts(folder, manifest);
  const lines = firstLines(manifest.chunks);
  const table = to === undefined ? null : await VectorTable.open(options, manifest);
  try {
    const inTable = table && (await abortable(table.done(), signal));
    for (const [chunk, { rows }] of manifest.chunks.entries()) {
      signal?.throwIfAborted();
      let errors: number | null = null;
      try {
        if (done.has(chunk)) errors = await errorsIn(folder, manifest, chunk, lines[chunk]!);
      } catch (error) {
        if (!(error instanceof Damage)) throw error;
        const foreign = setPartAside(folder, manifest, chunk);
        const hint = foreign ? `. heed did not write ${foreign}: move it away` : '';
        result.damaged.push({ part: partNames(manifest, chunk).at(-1)!, error: `${error.message}${hint}` });
      }
      if (errors === null || inTable?.has(chunk) === false) {
        result.missing.push(chunk);
        if (failed.has(chunk)) result.failed.push(readFailure(folder, chunk));
        continue;
      }
      result.parts++;
      result.rows += rows;
      result.errors += errors;
      onProgress?.({ done: result.rows, total: manifest.rows });
      await turn(); // lets pending signals be handled
    }
    if (table && result.missing.length === 0) {
      const count = await countRows(table, options, manifest);
      const error = `expected ${manifest.rows} rows of the plan's files, got ${count}`;
      if (count !== manifest.rows) result.damaged.push({ part: options.table ?? 'embeddings', error });
    }
  } finally {
    await table?.close();
  }
  result.complete = result.missing.length === 0 && result.damaged.length === 0;
  if (queue !== undefined) await updateQueue(options, manifest, result.missing);
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
 * The number of rows of the plan's files in the table. The server may take long to count, so another connection tells
 * whether it is still there.
 */
async function countRows(table: VectorTable, options: FinishOptions, manifest: Manifest): Promise<number> {
  const other = await VectorTable.open(options, manifest);
  try {
    // The watch settles first only if the server no longer answers.
    const counted = Promise.race([table.count(manifest.files), other.watch()]);
    return (await abortable(counted, options.signal)) as number;
  } finally {
    void other.close(); // not awaited, because the server may not answer
  }
}

async function updateQueue(options: FinishOptions, manifest: Manifest, missing: number[]): Promise<void> {
  const queue = await ChunkQueue.open(options, manifest);
  try {
    await abortable(missing.length > 0 ? queue.add(missing) : queue.delete(), options.signal);
  } finally {
    await queue.close();
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

/** What is wrong with a part. */
class Damage extends Error {}

/**
 * The number of rows of a part without a vector. Memory does not depend on the part's length. `first`: the line of its
 * first row.
 *
 * @throws Damage if the part is incomplete, or if its line numbers are not consecutive
 */
async function errorsIn(folder: string, manifest: Manifest, chunk: number, first: number): Promise<number> {
  const { rows, file } = manifest.chunks[chunk]!;
  const [path = '', matrix] = partNames(manifest, chunk).map((name) => join(folder, name));
  const lost = [path, matrix].find((each) => each !== undefined && statusOf(each) === undefined);
  if (lost !== undefined) throw new Damage(`expected ${basename(lost)} next to it, got no such file`);
  const found = manifest.parts === 'parquet' ? await parquetRows(path, first) : jsonRows(path, file, first);
  if (found.rows !== rows) throw new Damage(`expected ${rows} rows, got ${found.rows}`);
  if (found.wrong) {
    const { row, line } = found.wrong;
    throw new Damage(`row ${row + 1}: expected line ${first + row} of ${file}, got ${line}`);
  }
  if (matrix !== undefined) requireMatrix(matrix, manifest, rows);
  return found.errors;
}

interface Found {
  rows: number;
  errors: number;
  /** The first row, from 0, whose line is not the expected one. */
  wrong?: { row: number; line: number } | undefined;
}

/** Upper bound on the length of a row that heed writes: ids come from lines of at most 1 MiB. */
const MAX_ROW_BYTES = 64 << 20;
/**
 * Character before the closing brace of an error row, which ends in its message. Rows with vectors end in a bracket
 * there.
 */
const QUOTE = 34;

function jsonRows(path: string, file: string, first: number): Found {
  const head = rowStart(file);
  const found: Found = { rows: 0, errors: 0 };
  for (const { bytes, ended } of splitLines(pieces(path), MAX_ROW_BYTES)) {
    const text = bytes ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length) : Buffer.alloc(0);
    if (bytes && !ended) throw new Damage(`expected complete lines, got ${text.length} bytes without a line's end`);
    const isOwn = text.subarray(0, head.length).equals(head);
    const digits = isOwn && /^\d+(?=[,}])/.exec(text.toString('latin1', head.length, head.length + 20));
    if (!digits) {
      const got = JSON.stringify(text.toString('utf8', 0, 60));
      throw new Damage(`row ${found.rows + 1}: expected a row of ${file}, got ${got}`);
    }
    const line = Number(digits[0]);
    if (line !== first + found.rows) found.wrong ??= { row: found.rows, line };
    found.rows++;
    if (text.at(-2) === QUOTE && text.includes(',"error":"')) found.errors++;
  }
  return found;
}

/** Reads the file's footer only, not its rows. */
async function parquetRows(path: string, first: number): Promise<Found> {
  const byteLength = fs.statSync(path).size;
  const slice = (from: number, end = byteLength) => readRange(path, from, end - from).buffer;
  try {
    const { num_rows, key_value_metadata: pairs } = await parquetMetadataAsync({ byteLength, slice });
    const { line, errors } = JSON.parse(pairs!.find(({ key }) => key === PARQUET_KEY)!.value!);
    return { rows: Number(num_rows), errors, wrong: line === first ? undefined : { row: 0, line } };
  } catch (error) {
    if (error instanceof HeedError) throw error;
    throw new Damage(`expected a Parquet file of heed, got one that cannot be read (${(error as Error).message})`);
  }
}

function requireMatrix(path: string, manifest: Manifest, rows: number): void {
  const width = storedWidth(manifest);
  const shape = npyShape(readRange(path, 0, NPY_HEADER_BYTES));
  const { size } = fs.statSync(path);
  const bytes = NPY_HEADER_BYTES + rows * width * (manifest.output === 'float32' ? 4 : 1);
  if (shape?.[0] !== rows || shape[1] !== width) throw new Damage(`expected shape [${rows}, ${width}], got ${shape}`);
  if (size !== bytes) throw new Damage(`expected ${bytes} bytes, got ${size}`);
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
  const times = [...done]
    .map((chunk) => ({ chunk, time: timeOf(join(folder, partNames(manifest, chunk).at(-1)!)) }))
    .sort((a, b) => a.time - b.time)
    .slice(-RECENT);
  // The rows of the first of these parts were embedded before the measured interval. If a clock was set back, the rate
  // is null rather than wrong.
  const seconds = times.length < 2 ? 0 : (times.at(-1)!.time - times[0]!.time) / 1000;
  const recent = times.slice(1).map(({ chunk }) => chunk);
  const rate = seconds > 0 ? rowsOf(manifest, recent) / seconds : null;
  const rowsDone = rowsOf(manifest, done);
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
