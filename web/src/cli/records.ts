/** Reads texts from files or standard input as a stream: plain lines, JSON lines, or CSV with a header. */

import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { HeedError } from '../index.js';
import { invalidFile } from './error.js';

export const FORMATS = ['lines', 'jsonl', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

export interface RecordOptions {
  /** Default: by the file's ending, otherwise lines. */
  format?: Format;
  /** The key or column that holds the text. */
  field: string;
  /** Whether JSON lines may have `descriptions` in addition to the text. */
  described?: boolean;
}

/** An entry of an index: a text, and descriptions of what it means. */
export interface Entry {
  text: string;
  descriptions: string[];
}

export async function* readTexts(files: string[], options: RecordOptions): AsyncGenerator<string> {
  for await (const { text } of readEntries(files, options)) yield text;
}

/** Texts with their descriptions, which only JSON lines have. */
export async function* readEntries(files: string[], options: RecordOptions): AsyncGenerator<Entry> {
  for (const file of files.length > 0 ? files : ['-']) {
    const format =
      options.format ??
      (file.endsWith('.jsonl') || file.endsWith('.ndjson') ? 'jsonl' : file.endsWith('.csv') ? 'csv' : 'lines');
    const stream = file === '-' ? process.stdin : createReadStream(file);
    try {
      stream.setEncoding('utf8');
      yield* format === 'csv' ? csvEntries(stream, file, options.field) : lineEntries(stream, file, format, options);
    } catch (cause) {
      if (cause instanceof HeedError) throw cause;
      if (cause instanceof CsvError)
        throw invalidFile(file, 'CSV as in RFC 4180', `a file that cannot be parsed (${cause.message})`, cause);
      throw new HeedError('NOT_FOUND', `${file}: cannot be read (${(cause as Error).message})`, { cause });
    }
  }
}

/** Lines that end in LF or CRLF. Own code: Node's readline also splits at U+2028 and U+2029, which texts may contain. */
async function* lines(stream: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of stream) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop()!;
    for (const line of parts) yield line.endsWith('\r') ? line.slice(0, -1) : line;
  }
  if (rest !== '') yield rest;
}

async function* lineEntries(
  stream: AsyncIterable<string>,
  file: string,
  format: Format,
  options: RecordOptions,
): AsyncGenerator<Entry> {
  let number = 0;
  for await (const line of lines(stream)) {
    number++;
    if (format === 'lines') yield { text: line, descriptions: [] };
    else if (line.trim() !== '') yield jsonEntry(line, options, `${file}:${number}`);
  }
}

function jsonEntry(line: string, { field, described = false }: RecordOptions, location: string): Entry {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw invalidFile(location, `{ "${field}": "..." }`, 'a line that is not JSON', cause);
  }
  if (typeof value === 'string') return { text: value, descriptions: [] };
  const { [field]: text, descriptions = [] } = (value ?? {}) as Record<string, unknown>;
  if (typeof text !== 'string')
    throw invalidFile(location, `{ "${field}": "..." }`, `no text under '${field}'. Name another key with --field`);
  if (!described) return { text, descriptions: [] };
  if (!Array.isArray(descriptions) || descriptions.some((description) => typeof description !== 'string'))
    throw invalidFile(`${location}: descriptions`, 'a list of texts', JSON.stringify(descriptions).slice(0, 80));
  return { text, descriptions };
}

async function* csvEntries(stream: AsyncIterable<string>, file: string, field: string): AsyncGenerator<Entry> {
  let column = -1;
  let number = 0;
  for await (const row of csvRows(stream)) {
    number++;
    if (column < 0) {
      column = row.indexOf(field);
      if (column < 0) throw invalidFile(file, `a column '${field}'`, `${row.join(', ')}. Name another with --field`);
    } else if (row.length > 1 || row[0] !== '') {
      if (row[column] === undefined)
        throw invalidFile(`${file}: row ${number}`, `at least ${column + 1} cells`, `${row.length}`);
      yield { text: row[column]!, descriptions: [] };
    }
  }
}

/** The rows of a CSV file (RFC 4180), as lists of cells. */
export function csvRows(text: AsyncIterable<string>): AsyncIterable<string[]> {
  const parser = parse({ bom: true, record_delimiter: ['\r\n', '\n'], relax_column_count: true, relax_quotes: true });
  return pipeline(text, parser, () => {}); // errors reach the reader of the parser
}
