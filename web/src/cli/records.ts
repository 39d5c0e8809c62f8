/** Reads texts from files or standard input as a stream: plain lines, JSON lines, or CSV with a header. */

import { createReadStream, type Stats, statSync } from 'node:fs';
import { pipeline } from 'node:stream';
import { CsvError, type Parser, parse } from 'csv-parse';
import { HeedError } from '../index.js';
import { invalid, invalidFile } from '../node/error.js';
import { settings } from './terminal.js';

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

/** The texts of files, or of standard input if there are none, as a stream. @throws HeedError at once for a path that is no file */
export class Input {
  /** The size of all files; null if one is not a regular file. */
  readonly bytes: number | null;
  readonly #files: string[];
  readonly #options: RecordOptions;
  /** Bytes of the files that were read to their end, and of the current one. */
  #read = { before: 0, current: 0 };

  constructor(files: string[], options: RecordOptions) {
    this.#files = files.length > 0 ? files : ['-'];
    this.#options = options;
    if (this.#files.filter((file) => file === '-').length > 1)
      throw invalid('files', "'-' (standard input) once", `it ${this.#files.length} times`);
    const sizes = this.#files.map(sizeOf);
    this.bytes = sizes.reduce((sum, size) => (sum === null || size === null ? null : sum + size), 0);
  }

  /** How much of the input was read, from 0 to 1; undefined if its size is not known. */
  get fraction(): number | undefined {
    return this.bytes ? Math.min(1, (this.#read.before + this.#read.current) / this.bytes) : undefined;
  }

  async *texts(): AsyncGenerator<string> {
    for await (const { text } of this.entries()) yield text;
  }

  /** Texts with their descriptions, which only JSON lines have. @throws HeedError if there is no text at all */
  async *entries(): AsyncGenerator<Entry> {
    this.#read = { before: 0, current: 0 };
    let isEmpty = true;
    for (const file of this.#files) {
      for await (const entry of this.#entriesOf(file)) {
        isEmpty = false;
        yield entry;
      }
      this.#read = { before: this.#read.before + (sizeOf(file) ?? 0), current: 0 };
    }
    const names = this.#files.map((file) => (file === '-' ? 'standard input' : file));
    if (isEmpty) throw invalidFile(names.join(', '), 'at least one text', 'none');
  }

  async *#entriesOf(file: string): AsyncGenerator<Entry> {
    const { format = formatOf(file), field } = this.#options;
    const onRead = (bytes: number) => {
      this.#read.current = bytes;
    };
    if (file === '-' && process.stdin.isTTY && !settings.quiet) {
      const end = process.platform === 'win32' ? 'Ctrl-Z and Enter end' : 'Ctrl-D ends';
      process.stderr.write(`heed: reading texts from standard input, one per line; ${end} them\n`);
    }
    const stream = file === '-' ? process.stdin : createReadStream(file);
    try {
      stream.setEncoding('utf8');
      yield* format === 'csv'
        ? csvEntries(stream, file, field, onRead)
        : lineEntries(stream, file, format, this.#options, onRead);
    } catch (cause) {
      if (cause instanceof HeedError) throw cause;
      if (cause instanceof CsvError)
        throw invalidFile(file, 'CSV as in RFC 4180', `a file that cannot be parsed (${cause.message})`, cause);
      throw unreadable(file, cause);
    }
  }
}

const unreadable = (file: string, cause: unknown) =>
  new HeedError('NOT_FOUND', `${file}: cannot be read (${(cause as Error).message})`, { cause });

const formatOf = (file: string): Format =>
  /\.(jsonl|ndjson)$/.test(file) ? 'jsonl' : file.endsWith('.csv') ? 'csv' : 'lines';

/** The size of a file; null if it is not a regular one. @throws HeedError if it cannot be read, or is a folder */
function sizeOf(file: string): number | null {
  if (file === '-') return null;
  let status: Stats;
  try {
    status = statSync(file);
  } catch (cause) {
    throw unreadable(file, cause);
  }
  if (status.isDirectory()) throw invalidFile(file, 'a file', 'a folder');
  return status.isFile() ? status.size : null;
}

/** Lines that end in LF or CRLF, without a byte order mark. Own code: Node's readline also splits at U+2028 and U+2029, which texts may contain. */
async function* lines(stream: AsyncIterable<string>, onRead: (bytes: number) => void): AsyncGenerator<string> {
  let rest = '';
  let bytes = 0;
  let isFirst = true;
  for await (const chunk of stream) {
    const parts = (rest + (isFirst ? chunk.replace(/^\uFEFF/, '') : chunk)).split('\n');
    isFirst = false;
    rest = parts.pop()!;
    for (const line of parts) {
      bytes += Buffer.byteLength(line) + 1;
      onRead(bytes);
      yield line.endsWith('\r') ? line.slice(0, -1) : line;
    }
  }
  if (rest !== '') yield rest;
}

async function* lineEntries(
  stream: AsyncIterable<string>,
  file: string,
  format: Format,
  options: RecordOptions,
  onRead: (bytes: number) => void,
): AsyncGenerator<Entry> {
  let number = 0;
  for await (const line of lines(stream, onRead)) {
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

async function* csvEntries(
  stream: AsyncIterable<string>,
  file: string,
  field: string,
  onRead: (bytes: number) => void,
): AsyncGenerator<Entry> {
  const rows = csvRows(stream);
  let column = -1;
  let number = 0;
  for await (const row of rows as AsyncIterable<string[]>) {
    number++;
    onRead(rows.info.bytes);
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
export function csvRows(text: AsyncIterable<string>): Parser {
  const parser = parse({ bom: true, record_delimiter: ['\r\n', '\n'], relax_column_count: true, relax_quotes: true });
  return pipeline(text, parser, () => {}); // errors reach the reader of the parser
}

/** The texts of a file of lines, .jsonl or .csv. */
export async function allTexts(file: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const text of new Input([file], { field: 'text' }).texts()) texts.push(text);
  return texts;
}
