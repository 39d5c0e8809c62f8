/** What `heed embed` and plans have in common in reading texts: formats, encodings, records of JSON, and messages. */
import { extname } from 'node:path';
import { invalidFile } from '../base/error.js';

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

/** What files of texts contain, for messages. */
export const TEXT = 'text in UTF-8, or in UTF-16 with a byte order mark';

export const isBinary = (name: string) => invalidFile(name, TEXT, 'a binary file, with bytes of 0');

/** The error for a file whose lines end in CR, which would be read as a single line. */
export const endsInCr = (name: string) =>
  invalidFile(name, 'lines that end in LF or CRLF', "ones that end in CR alone. Convert them: tr '\\r' '\\n'");

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
