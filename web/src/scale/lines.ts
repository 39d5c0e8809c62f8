/** Reads a corpus: cuts its files into chunks for a plan, and reads the lines of one chunk for embedding. */
import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { HeedError } from '../index.js';
import { type Encoding, endsInCr, invalidFile, isBinary, pieces, recordOfLine, statusOf } from '../node/index.js';
import { type Chunk, firstLines, type Manifest } from './manifest.js';

/** Maximum length of a line. Longer lines become error rows, so that memory is bounded. */
export const MAX_LINE_BYTES = 1 << 20;

const LF = 10;
const CR = 13;

/** Bytes per code unit. */
const unitOf = (encoding: Encoding) => (encoding === 'utf-8' ? 1 : 2);

/**
 * Byte index of the first code unit `unit` from byte `from` on, or -1. `bytes` and `from` must begin at a code unit.
 */
function indexOfUnit(bytes: Uint8Array, unit: number, from: number, encoding: Encoding): number {
  if (encoding === 'utf-8') return bytes.indexOf(unit, from);
  const low = encoding === 'utf-16le' ? 0 : 1; // parity of the index of a unit's low byte
  for (let at = bytes.indexOf(unit, from); at >= 0; at = bytes.indexOf(unit, at + 1))
    if (at % 2 === low && bytes[at + 1 - 2 * low] === 0) return at - low;
  return -1;
}

/**
 * Splits the pieces of a text into lines: `bytes` without the line feed, or null if there are more than `most`, and
 * whether the line `ended` in a line feed. Pieces begin at a code unit. The text after the last line feed is a line
 * unless it is empty. Memory does not depend on the length of lines. `bytes` is valid until the next line is read.
 */
export function* splitLines(
  pieces: Iterable<Uint8Array>,
  most: number,
  encoding: Encoding = 'utf-8',
): Generator<{ bytes: Uint8Array | null; ended: boolean }> {
  let parts: Uint8Array[] = [];
  let length = 0;
  const line = () => (parts.length === 1 ? parts[0]! : Buffer.concat(parts));
  for (const piece of pieces)
    for (let from = 0; from < piece.length; ) {
      const end = indexOfUnit(piece, LF, from, encoding);
      const part = piece.subarray(from, end < 0 ? piece.length : end);
      const wasTooLong = length > most;
      length += part.length;
      const isTooLong = length > most;
      if (isTooLong && !wasTooLong) yield { bytes: null, ended: false };
      if (isTooLong) parts = [];
      else parts.push(end < 0 ? part.slice() : part);
      if (end < 0) break;
      if (!isTooLong) yield { bytes: line(), ended: true };
      parts = [];
      length = 0;
      from = end + unitOf(encoding);
    }
  if (length > 0 && length <= most) yield { bytes: line(), ended: false };
}

/**
 * Cuts a file into chunks of whole lines. A chunk ends at the limit of rows or after the line that reaches the limit of bytes.
 *
 * @throws HeedError INVALID_FILE if the file does not consist of lines
 */
export function* chunksOf(
  path: string,
  file: string,
  limits: { rows: number; bytes: number },
  encoding: Encoding = 'utf-8',
): Generator<Chunk> {
  let first = 0;
  let bytes = 0;
  let rows = 0;
  let hash = createHash('sha256');
  let partOfLine = false;
  let isFirstLine = true;
  let hasCr = false;
  const close = (): Chunk => {
    const chunk = { file, first, bytes, sha256: hash.digest('hex'), rows };
    first += bytes;
    bytes = rows = 0;
    hash = createHash('sha256');
    return chunk;
  };
  for (const piece of pieces(path)) {
    let start = 0;
    if (isFirstLine) {
      const end = indexOfUnit(piece, LF, 0, encoding);
      const part = piece.subarray(0, end < 0 ? undefined : end);
      if (indexOfUnit(part, 0, 0, encoding) >= 0) throw isBinary(file);
      const cr = indexOfUnit(part, CR, 0, encoding);
      hasCr ||= cr >= 0 && cr + unitOf(encoding) < part.length;
      isFirstLine = end < 0;
    }
    for (let from = 0; from < piece.length; ) {
      const feed = indexOfUnit(piece, LF, from, encoding);
      partOfLine = feed < 0;
      if (partOfLine) break;
      const end = feed + unitOf(encoding);
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
  if (isFirstLine && hasCr) throw endsInCr(file);
  if (partOfLine) rows++; // the last line has no line feed
  if (bytes > 0) yield close();
}

/** A line of a corpus: the text to embed, or the reason why there is none. */
export interface Line {
  /** Line number in its file, from 1. */
  line: number;
  /** JSON lines only: the line's id, if it has one. */
  id?: unknown;
  text?: string | undefined;
  error?: string | undefined;
}

/** The fields of a manifest that are needed to read the corpus. */
type Corpus = Pick<Manifest, 'root' | 'files' | 'chunks' | 'field' | 'id'>;

const changed = (path: string, got: string) =>
  invalidFile(path, 'the file that was planned', `${got}. Restore it, or make a new plan in another folder`);

/** @throws HeedError INVALID_FILE if the chunk's bytes have changed since the plan was made */
export function requireUnchanged({ root }: Corpus, { file, first, bytes, sha256 }: Chunk): void {
  const path = resolve(root, file);
  const hash = createHash('sha256');
  for (const piece of pieces(path, first, bytes)) hash.update(piece);
  if (hash.digest('hex') !== sha256) throw changed(path, `different bytes from ${first} to ${first + bytes}`);
}

/** @throws HeedError NOT_FOUND if a file is missing; INVALID_FILE if its length has changed since the plan was made */
export function requireSameSizes({ root, files }: Corpus): void {
  for (const { file, bytes } of files) {
    const path = resolve(root, file);
    const status = statusOf(path);
    if (!status) throw new HeedError('NOT_FOUND', `${path}: expected the file that was planned, got none`);
    if (status.size !== bytes) throw changed(path, `a file of ${status.size} bytes instead of ${bytes}`);
  }
}

/** The lines of a chunk. @throws HeedError INVALID_FILE if the file changes while it is read */
export function* linesOf(corpus: Corpus, number: number): Generator<Line> {
  const chunk = corpus.chunks[number]!;
  const path = resolve(corpus.root, chunk.file);
  const { format, encoding = 'utf-8' } = corpus.files.find(({ file }) => file === chunk.file)!;
  let line = firstLines(corpus.chunks)[number]!;
  const hash = createHash('sha256');
  function* hashed(): Generator<Uint8Array> {
    for (const piece of pieces(path, chunk.first, chunk.bytes)) {
      hash.update(piece);
      yield piece;
    }
  }
  for (const { bytes } of splitLines(hashed(), MAX_LINE_BYTES, encoding)) {
    yield { line, ...parseLine(bytes, encoding, line === 1, format, corpus) };
    line++;
  }
  if (hash.digest('hex') !== chunk.sha256) throw changed(path, 'a file that changed while it was read');
}

/**
 * PostgreSQL's text type cannot store U+0000, and UTF-8 cannot encode lone surrogates. Ids that are not strings are
 * stored as JSON, which escapes both.
 */
const UNSTORABLE = /[\0\p{Surrogate}]/u;

function parseLine(
  bytes: Uint8Array | null,
  encoding: Encoding,
  isFirst: boolean,
  format: 'lines' | 'jsonl',
  { field, id }: Corpus,
): Omit<Line, 'line'> {
  if (!bytes) return { error: `expected a line of at most ${MAX_LINE_BYTES} bytes, got a longer one` };
  let text: string;
  try {
    text = decodeLine(bytes, encoding, isFirst);
  } catch {
    return { error: `expected ${encoding.toUpperCase()}, got invalid bytes` };
  }
  if (text.includes('\0')) return { error: 'expected text, got a line with bytes of 0' };
  if (format === 'lines') return { text };
  const expected = `expected { ${JSON.stringify(field)}: "..." }`;
  const read = recordOfLine(text);
  if ('cause' in read)
    return { error: `${expected}, got ${text.trim() === '' ? 'an empty line' : 'a line that is not JSON'}` };
  const entry = 'record' in read ? read.record : {};
  if (typeof entry === 'string') return { text: entry };
  const named: Pick<Line, 'id'> = Object.hasOwn(entry, id) ? { id: entry[id] } : {};
  if (typeof named.id === 'string' && UNSTORABLE.test(named.id)) {
    const got = JSON.stringify(named.id.slice(0, 60));
    return { error: `${JSON.stringify(id)}: expected Unicode text without U+0000, got ${got}` };
  }
  if (typeof entry[field] === 'string') return { ...named, text: entry[field] };
  return { ...named, error: `${expected}, got no text under ${JSON.stringify(field)}` };
}

const DECODERS = new Map<Encoding, TextDecoder>();

/**
 * Decodes a line. Removes a carriage return at its end and, from the first line of a file (`isFirst`), a byte order
 * mark.
 *
 * @throws TypeError if the bytes are invalid in the encoding
 */
function decodeLine(bytes: Uint8Array, encoding: Encoding, isFirst: boolean): string {
  let decoder = DECODERS.get(encoding);
  if (!decoder) {
    decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
    DECODERS.set(encoding, decoder);
  }
  const text = decoder.decode(bytes);
  return text.slice(isFirst && text.startsWith('\uFEFF') ? 1 : 0, text.endsWith('\r') ? -1 : undefined);
}
