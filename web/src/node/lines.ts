/** Reads texts for `heed embed` and for plans: formats, encodings, and lines of any length. */
import { extname } from 'node:path';
import { invalid, invalidFile } from '../base/error.js';

export const FORMATS = ['lines', 'jsonl', 'json', 'csv', 'tsv'] as const;
export type Format = (typeof FORMATS)[number];

const ENDINGS: Record<string, Format> = {
  ...{ '.jsonl': 'jsonl', '.ndjson': 'jsonl', '.json': 'json' },
  ...{ '.csv': 'csv', '.tsv': 'tsv', '.tab': 'tsv' },
};

/** The format for a file name's extension, or undefined. */
export const formatOf = (file: string): Format | undefined => ENDINGS[extname(file).toLowerCase()];

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be';

/**
 * UTF-16 if the text begins with its byte order mark, otherwise UTF-8. Other encodings cannot be recognized by their
 * bytes.
 */
export function encodingOf([a, b]: Uint8Array): Encoding {
  if (a === 0xff && b === 0xfe) return 'utf-16le';
  return a === 0xfe && b === 0xff ? 'utf-16be' : 'utf-8';
}

/** Bytes per code unit. */
export const unitOf = (encoding: Encoding) => (encoding === 'utf-8' ? 1 : 2);

const TEXT = 'text in UTF-8, or in UTF-16 with a byte order mark';

/** The error for a text in another encoding. */
export const notText = (name: string, encoding: string, cause: unknown) => {
  const hint = 'A text in another encoding is converted by, for example, iconv -f WINDOWS-1252 -t UTF-8';
  const got = `bytes that are not ${encoding.toUpperCase()}`;
  return invalid(name, TEXT, got, 'INVALID_FILE', { hint, cause });
};

/** The error for a binary file. */
export const isBinary = (name: string) => invalidFile(name, TEXT, 'a binary file, with bytes of 0');

/** The error for a file whose lines end in CR, which would be read as a single line. */
export const endsInCr = (name: string) =>
  invalidFile(name, 'lines that end in LF or CRLF', "ones that end in CR alone. Convert them: tr '\\r' '\\n'");

const LF = 10;
const CR = 13;

/**
 * Byte index of the first code unit `unit` from byte `from` on, or -1. `bytes` and `from` must begin at a code unit.
 */
export function indexOfUnit(bytes: Uint8Array, unit: number, from: number, encoding: Encoding): number {
  if (encoding === 'utf-8') return bytes.indexOf(unit, from);
  const low = encoding === 'utf-16le' ? 0 : 1; // parity of the index of a unit's low byte
  for (let at = bytes.indexOf(unit, from); at >= 0; at = bytes.indexOf(unit, at + 1))
    if (at % 2 === low && bytes[at + 1 - 2 * low] === 0) return at - low;
  return -1;
}

/** Whether a text without line feeds has a carriage return before its end. */
export function hasInnerCr(bytes: Uint8Array, encoding: Encoding): boolean {
  const at = indexOfUnit(bytes, CR, 0, encoding);
  return at >= 0 && at + unitOf(encoding) < bytes.length;
}

export interface RawLine {
  /** The line without its line feed; null if it exceeds the limit. Valid until the next line is read. */
  bytes: Uint8Array | null;
  /** Whether the line ends in a line feed. */
  ended: boolean;
}

/**
 * Splits the pieces of a text into lines. The text after the last line feed is a line unless it is empty. Memory does
 * not depend on the length of lines.
 */
export class LineSplitter {
  readonly #most: number;
  readonly #encoding: Encoding;
  #parts: Uint8Array[] = [];
  #length = 0;
  /** The first byte of a code unit whose second byte is in the next piece. */
  #half: Uint8Array = new Uint8Array();

  /** `most`: maximum length of a line in bytes. */
  constructor(most: number, encoding: Encoding = 'utf-8') {
    this.#most = most;
    this.#encoding = encoding;
  }

  *push(given: Uint8Array): Generator<RawLine> {
    const piece = unitOf(this.#encoding) === 1 ? given : this.#whole(given);
    for (let from = 0; from < piece.length; ) {
      const end = indexOfUnit(piece, LF, from, this.#encoding);
      const part = piece.subarray(from, end < 0 ? piece.length : end);
      const wasTooLong = this.#length > this.#most;
      this.#length += part.length;
      const isTooLong = this.#length > this.#most;
      if (isTooLong && !wasTooLong) yield { bytes: null, ended: false };
      if (isTooLong) this.#parts = [];
      else this.#parts.push(end < 0 ? part.slice() : part);
      if (end < 0) return;
      if (!isTooLong) yield { bytes: this.#line(), ended: true };
      this.#parts = [];
      this.#length = 0;
      from = end + unitOf(this.#encoding);
    }
  }

  *end(): Generator<RawLine> {
    this.#parts.push(this.#half);
    this.#length += this.#half.length;
    if (this.#length > 0 && this.#length <= this.#most) yield { bytes: this.#line(), ended: false };
  }

  #line(): Uint8Array {
    return this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
  }

  /** The complete code units. Keeps the first half of an incomplete one for the next piece. */
  #whole(given: Uint8Array): Uint8Array {
    const bytes = this.#half.length > 0 ? Buffer.concat([this.#half, given]) : given;
    const even = bytes.length - (bytes.length % 2);
    this.#half = bytes.slice(even);
    return bytes.subarray(0, even);
  }
}

/** Splits the pieces of a text into lines of at most `most` bytes. */
export function* splitLines(pieces: Iterable<Uint8Array>, most: number, encoding?: Encoding): Generator<RawLine> {
  const splitter = new LineSplitter(most, encoding);
  for (const piece of pieces) yield* splitter.push(piece);
  yield* splitter.end();
}

/** The text of a line, or why it has none. */
type LineText = { text: string } | { problem: 'too long' | 'not text' | 'binary'; cause?: unknown };

/** Reads a line. `isFirst`: whether it is the first line of its file, which may begin with a byte order mark. */
export function textOfLine(bytes: Uint8Array | null, encoding: Encoding, isFirst: boolean): LineText {
  if (!bytes) return { problem: 'too long' };
  let text: string;
  try {
    text = decodeLine(bytes, encoding, isFirst);
  } catch (cause) {
    return { problem: 'not text', cause };
  }
  return text.includes('\0') ? { problem: 'binary' } : { text };
}

/** A record of a file of JSON: a text, or values by key. */
export type JsonRecord = string | Readonly<Record<string, unknown>>;

/** A value of JSON as a record; null if it is neither a text nor an object. */
export const asRecord = (value: unknown): JsonRecord | null =>
  typeof value === 'string' || (typeof value === 'object' && value !== null && !Array.isArray(value))
    ? (value as JsonRecord)
    : null;

/** Reads a line of JSON. `cause`: the line is not JSON. */
export function recordOfLine(line: string): { record: JsonRecord } | { value: unknown } | { cause: unknown } {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    return { cause };
  }
  const record = asRecord(value);
  return record === null ? { value } : { record };
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
