/** Reads a corpus by ranges of bytes: its chunks when it is planned, and the lines of one chunk when it is embedded. */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { resolve } from 'node:path';
import { invalidFile } from '../cli/error.js';
import { HeedError } from '../index.js';
import { type Chunk, firstLines, type Manifest, statusOf } from './manifest.js';

/** Longer lines become error rows, so that memory does not depend on the length of a line. */
export const MAX_LINE_BYTES = 1 << 20;

const LF = 10;
const CR = 13;
const BUFFER_BYTES = 1 << 20;

/** The bytes of a file from `first` on, at most `bytes` of them. Each piece is valid until the next one is read. */
function* pieces(path: string, first: number, bytes: number): Generator<Uint8Array> {
  let file: number;
  try {
    file = fs.openSync(path, 'r');
  } catch (cause) {
    throw new HeedError('NOT_FOUND', `${path}: cannot be read (${(cause as Error).message})`, { cause });
  }
  try {
    const buffer = new Uint8Array(BUFFER_BYTES);
    for (let at = first; at < first + bytes; ) {
      const count = fs.readSync(file, buffer, 0, Math.min(buffer.length, first + bytes - at), at);
      if (count === 0) return;
      yield buffer.subarray(0, count);
      at += count;
    }
  } finally {
    fs.closeSync(file);
  }
}

export interface ChunkLimits {
  rows: number;
  bytes: number;
}

/** Cuts a file into chunks of whole lines. A chunk ends at the limit of rows or after the line that reaches the limit of bytes. */
export function* chunksOf(path: string, file: string, limits: ChunkLimits): Generator<Chunk> {
  let first = 0;
  let bytes = 0;
  let rows = 0;
  let hash = createHash('sha256');
  let partOfLine = false;
  const close = (): Chunk => {
    const chunk = { file, first, bytes, sha256: hash.digest('hex'), rows };
    first += bytes;
    bytes = rows = 0;
    hash = createHash('sha256');
    return chunk;
  };
  for (const piece of pieces(path, 0, Number.MAX_SAFE_INTEGER)) {
    let start = 0;
    for (let from = 0; from < piece.length; ) {
      const end = piece.indexOf(LF, from) + 1;
      partOfLine = end === 0;
      if (partOfLine) break;
      from = end;
      rows++;
      if (rows < limits.rows && bytes + end - start < limits.bytes) continue;
      hash.update(piece.subarray(start, end));
      bytes += end - start;
      start = end;
      yield close();
    }
    hash.update(piece.subarray(start));
    bytes += piece.length - start;
  }
  if (partOfLine) rows++; // the last line has no line feed
  if (bytes > 0) yield close();
}

/** A line of a corpus: the text to embed, or why there is none. */
export interface Line {
  /** From 1, in its file. */
  line: number;
  /** JSON lines only, if the line has one. */
  id?: unknown;
  text?: string;
  error?: string;
}

/** The part of a manifest that reading needs. */
type Corpus = Pick<Manifest, 'root' | 'files' | 'chunks' | 'field' | 'id'>;

const changed = (path: string, got: string) =>
  invalidFile(path, 'the file that was planned', `${got}. Restore it, or make a new plan in another folder`);

/** @throws HeedError INVALID_FILE if the chunk's bytes are not those of the plan */
export function requireUnchanged({ root }: Corpus, { file, first, bytes, sha256 }: Chunk): void {
  const path = resolve(root, file);
  const hash = createHash('sha256');
  for (const piece of pieces(path, first, bytes)) hash.update(piece);
  if (hash.digest('hex') !== sha256) throw changed(path, `other bytes from ${first} to ${first + bytes}`);
}

/** @throws HeedError if a file is missing or has another length than when it was planned */
export function requireSameSizes({ root, files }: Corpus): void {
  for (const { file, bytes } of files) {
    const path = resolve(root, file);
    const status = statusOf(path);
    if (!status) throw new HeedError('NOT_FOUND', `${path}: expected the file that was planned, got none`);
    if (status.size !== bytes) throw changed(path, `one of ${status.size} bytes instead of ${bytes}`);
  }
}

/** The lines of a chunk. @throws HeedError INVALID_FILE if the file changes while it is read */
export function* linesOf(corpus: Corpus, number: number): Generator<Line> {
  const chunk = corpus.chunks[number]!;
  const path = resolve(corpus.root, chunk.file);
  const { format } = corpus.files.find(({ file }) => file === chunk.file)!;
  let line = firstLines(corpus.chunks)[number]!;
  const hash = createHash('sha256');
  let rest: Uint8Array[] = [];
  let length = 0;
  const take = (): Line => {
    const number = line++;
    const bytes = length > MAX_LINE_BYTES ? null : Buffer.concat(rest);
    rest = [];
    length = 0;
    return { line: number, ...(bytes ? parseLine(bytes, format, corpus) : TOO_LONG) };
  };
  for (const piece of pieces(path, chunk.first, chunk.bytes)) {
    hash.update(piece);
    for (let from = 0; from < piece.length; ) {
      const end = piece.indexOf(LF, from);
      const part = piece.subarray(from, end < 0 ? piece.length : end);
      length += part.length;
      if (length <= MAX_LINE_BYTES) rest.push(part.slice());
      else rest = [];
      if (end < 0) break;
      yield take();
      from = end + 1;
    }
  }
  if (length > 0) yield take();
  if (hash.digest('hex') !== chunk.sha256) throw changed(path, 'one that changed while it was read');
}

const TOO_LONG = { error: `expected a line of at most ${MAX_LINE_BYTES} bytes, got a longer one` };

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parseLine(bytes: Uint8Array, format: 'lines' | 'jsonl', { field, id }: Corpus): Omit<Line, 'line'> {
  let text: string;
  try {
    text = utf8.decode(bytes.at(-1) === CR ? bytes.subarray(0, -1) : bytes); // without a byte order mark
  } catch {
    return { error: 'expected UTF-8, got other bytes' };
  }
  if (format === 'lines') return { text };
  const expected = `expected { ${JSON.stringify(field)}: "..." }`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { error: `${expected}, got ${text.trim() === '' ? 'an empty line' : 'a line that is not JSON'}` };
  }
  if (typeof value === 'string') return { text: value };
  const entry = (value ?? {}) as Record<string, unknown>;
  const named = Object.hasOwn(entry, id) ? { id: entry[id] } : {};
  if (typeof entry[field] === 'string') return { ...named, text: entry[field] };
  return { ...named, error: `${expected}, got no text under ${JSON.stringify(field)}` };
}
