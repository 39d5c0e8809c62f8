/** Texts from files or standard input, one after the other: plain lines, JSON lines, or CSV with a header. */

import { createReadStream } from 'node:fs';
import { HeedError } from '../index.js';

export const FORMATS = ['lines', 'jsonl', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

export interface RecordOptions {
  /** Default: by the file's ending, else lines. */
  format?: Format;
  /** The key or column that holds the text. */
  field: string;
  /** JSON lines may have `descriptions` beside the text. */
  described?: boolean;
}

/** What an index keeps under one name: a text, and others that say what it means. */
export interface Entry {
  text: string;
  descriptions: string[];
}

export async function* readTexts(files: string[], options: RecordOptions): AsyncGenerator<string> {
  for await (const { text } of readEntries(files, options)) yield text;
}

/** Texts with the descriptions that stand beside them; only JSON lines have any. */
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
      throw new HeedError('NOT_FOUND', `${file}: cannot be read (${(cause as Error).message})`, { cause });
    }
  }
}

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

function jsonEntry(line: string, { field, described = false }: RecordOptions, place: string): Entry {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new HeedError('INVALID_FILE', `${place}: got a line that is no JSON; expected { "${field}": "..." }`, {
      cause,
    });
  }
  if (typeof value === 'string') return { text: value, descriptions: [] };
  const { [field]: text, descriptions = [] } = (value ?? {}) as Record<string, unknown>;
  if (typeof text !== 'string')
    throw new HeedError(
      'INVALID_FILE',
      `${place}: got no text under '${field}'; expected { "${field}": "..." }, or name another with --field`,
    );
  if (!described) return { text, descriptions: [] };
  if (!Array.isArray(descriptions) || descriptions.some((description) => typeof description !== 'string'))
    throw new HeedError(
      'INVALID_FILE',
      `${place}: descriptions: got ${JSON.stringify(descriptions).slice(0, 80)}; expected a list of texts`,
    );
  return { text, descriptions };
}

async function* csvEntries(stream: AsyncIterable<string>, file: string, field: string): AsyncGenerator<Entry> {
  let column = -1;
  let number = 0;
  for await (const row of csvRows(stream)) {
    number++;
    if (column < 0) {
      column = row.indexOf(field);
      if (column < 0)
        throw new HeedError(
          'INVALID_FILE',
          `${file}: got columns ${row.join(', ')}; expected one called '${field}', or name another with --field`,
        );
    } else if (row.length > 1 || row[0] !== '') {
      if (row[column] === undefined)
        throw new HeedError(
          'INVALID_FILE',
          `${file}: row ${number}: got ${row.length} cells; expected at least ${column + 1}`,
        );
      yield { text: row[column]!, descriptions: [] };
    }
  }
}

/** RFC 4180: cells in quotes may hold commas, line breaks, and quotes doubled. */
export async function* csvRows(stream: AsyncIterable<string>): AsyncGenerator<string[]> {
  let row: string[] = [];
  let cell = '';
  let quoted = false;
  let quoteSeen = false; // in quotes, a quote that either ends them or is the first of a pair
  let any = false;
  for await (const chunk of stream) {
    for (const c of chunk) {
      if (!any && c === '\uFEFF') continue;
      any = true;
      if (quoted && !quoteSeen) {
        if (c === '"') quoteSeen = true;
        else cell += c;
        continue;
      }
      if (quoteSeen) {
        quoteSeen = false;
        if (c === '"') {
          cell += c;
          continue;
        }
        quoted = false;
      }
      if (c === '"' && cell === '') quoted = true;
      else if (c === ',') {
        row.push(cell);
        cell = '';
      } else if (c === '\n') {
        row.push(cell.endsWith('\r') ? cell.slice(0, -1) : cell);
        yield row;
        row = [];
        cell = '';
      } else cell += c;
    }
  }
  if (cell !== '' || row.length > 0) yield [...row, cell];
}

/** Groups of up to `size`. */
export async function* batches<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length === size) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}
