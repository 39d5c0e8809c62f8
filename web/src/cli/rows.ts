/** Reads files or standard input as a stream of rows: plain lines, JSON lines, JSON arrays, or CSV and TSV with a header. */

import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { CsvError, type Parser, parse } from 'csv-parse';
import { HeedError } from '../index.js';
import { invalidFile } from '../node/error.js';
import { notice, settings } from './terminal.js';

export const FORMATS = ['lines', 'jsonl', 'json', 'csv', 'tsv'] as const;
export type Format = (typeof FORMATS)[number];

export interface FormatOptions {
  /** Default: by the file's extension, otherwise lines. */
  format?: Format;
  /** What separates the cells of a CSV file; default ','. */
  delimiter?: string;
}

/** Where a row is: what outputs say of it. */
export interface Origin {
  /** Missing for standard input. */
  file?: string;
  /** From 1. */
  line?: number;
  /** The position in a JSON array, from 0. */
  index?: number;
}

export interface Row {
  /** A text, or values by key or column. */
  readonly value: string | Readonly<Record<string, unknown>>;
  readonly origin: Origin;
  /** The row in messages. */
  readonly at: string;
}

export interface RowOptions extends FormatOptions {
  /** Columns without which a file is refused, and the option that names each. */
  columns?: ReadonlyMap<string, string>;
  /** The format of other endings. Default 'lines'. */
  fallback?: Format;
  /** Called with the number of bytes that have been read. */
  onRead?: (bytes: number) => void;
}

const ENDINGS: Record<string, Format> = {
  ...{ '.jsonl': 'jsonl', '.ndjson': 'jsonl', '.json': 'json' },
  ...{ '.csv': 'csv', '.tsv': 'tsv', '.tab': 'tsv' },
};

const endingOf = (file: string) => /\.[^./\\]*$/.exec(file)?.[0].toLowerCase() ?? '';

/** The rows of a file, or of standard input for '-'. @throws HeedError for a file that cannot be read or is not as its format says */
export async function* rowsOf(file: string, options: RowOptions): AsyncGenerator<Row> {
  const format = options.format ?? ENDINGS[endingOf(file)] ?? options.fallback ?? 'lines';
  if (file === '-' && process.stdin.isTTY && !settings.quiet) {
    const end = process.platform === 'win32' ? 'Ctrl-Z and Enter end' : 'Ctrl-D ends';
    notice(`reading texts from standard input, one per line; ${end} them`);
  }
  const name = file === '-' ? 'standard input' : file;
  const read = new Decoder(file === '-' ? process.stdin : createReadStream(file), name);
  const origin: Origin = file === '-' ? {} : { file };
  try {
    if (format === 'lines' || format === 'jsonl') yield* lineRows(read, name, origin, format, options);
    else if (format === 'json') yield* arrayRows(read, name, origin);
    else yield* tableRows(read, name, origin, { ...options, ...(format === 'tsv' && { delimiter: '\t' }) });
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    if (cause instanceof CsvError)
      throw invalidFile(name, 'CSV as in RFC 4180', `a file that cannot be parsed (${cause.message})`, cause);
    throw unreadable(file, cause);
  }
}

export const unreadable = (file: string, cause: unknown) =>
  new HeedError('NOT_FOUND', `${file}: cannot be read (${(cause as Error).message})`, { cause });

/** The text of bytes: UTF-8, or UTF-16 with a byte order mark. Other encodings and binary files are refused: their texts would be wrong, and nothing would say so. */
class Decoder {
  /** Bytes per character, to estimate how much of a file was read. */
  unit: 1 | 2 = 1;
  readonly #bytes: AsyncIterable<Uint8Array>;
  readonly #name: string;

  constructor(bytes: AsyncIterable<Uint8Array>, name: string) {
    this.#bytes = bytes;
    this.#name = name;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    let decoder: TextDecoder | undefined;
    let start: Uint8Array = new Uint8Array();
    for await (const bytes of this.#bytes) {
      if (!decoder) {
        start = start.length === 0 ? bytes : Buffer.concat([start, bytes]);
        if (start.length < 2) continue;
      }
      const first = !decoder;
      decoder ??= this.#decoderOf(start);
      yield this.#decode(decoder, first ? start : bytes);
    }
    decoder ??= this.#decoderOf(start);
    const rest = start.length < 2 ? this.#decode(decoder, start) : '';
    yield rest + this.#decode(decoder);
  }

  #decoderOf([a, b]: Uint8Array): TextDecoder {
    const encoding = a === 0xff && b === 0xfe ? 'utf-16le' : a === 0xfe && b === 0xff ? 'utf-16be' : 'utf-8';
    if (encoding !== 'utf-8') this.unit = 2;
    return new TextDecoder(encoding, { fatal: true });
  }

  /** Without bytes, the end. */
  #decode(decoder: TextDecoder, bytes?: Uint8Array): string {
    const expected = 'text in UTF-8, or in UTF-16 with a byte order mark';
    let text: string;
    try {
      text = decoder.decode(bytes, { stream: bytes !== undefined });
    } catch (cause) {
      const hint = 'A text in another encoding is converted by, for example, iconv -f WINDOWS-1252 -t UTF-8';
      throw invalidFile(this.#name, expected, `bytes that are not ${decoder.encoding.toUpperCase()}. ${hint}`, cause);
    }
    if (text.includes('\0')) throw invalidFile(this.#name, expected, 'a binary file, with bytes of 0');
    return text;
  }
}

/** Lines that end in LF or CRLF. Own code: Node's readline also splits at U+2028 and U+2029, which texts may contain. */
async function* lines(text: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of text) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop()!;
    for (const line of parts) yield line.endsWith('\r') ? line.slice(0, -1) : line;
  }
  if (rest !== '') yield rest;
}

async function* lineRows(
  read: Decoder,
  name: string,
  origin: Origin,
  format: 'lines' | 'jsonl',
  { onRead }: RowOptions,
): AsyncGenerator<Row> {
  let number = 0;
  let bytes = 0;
  for await (const line of lines(read)) {
    number++;
    bytes += (read.unit === 2 ? 2 * line.length : Buffer.byteLength(line)) + read.unit;
    onRead?.(bytes);
    const at = `${name}:${number}`;
    if (format === 'lines') yield { value: line, origin: { ...origin, line: number }, at };
    else if (line.trim() !== '') yield { value: jsonValue(line, at), origin: { ...origin, line: number }, at };
  }
}

const OBJECT = 'a text or an object, such as {"text": "..."}';

function jsonValue(line: string, at: string): Row['value'] {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    const hint = line.trimStart().startsWith('[') ? '. Read a JSON array with --format json' : '';
    throw invalidFile(at, OBJECT, `a line that is not JSON${hint}`, cause);
  }
  return record(value, at);
}

function record(value: unknown, at: string): Row['value'] {
  if (typeof value === 'string') return value;
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw invalidFile(at, OBJECT, JSON.stringify(value).slice(0, 80));
}

async function* arrayRows(read: Decoder, name: string, origin: Origin): AsyncGenerator<Row> {
  let json = '';
  for await (const chunk of read) json += chunk;
  const expected = 'a JSON array of texts or of objects';
  let list: unknown;
  try {
    list = JSON.parse(json);
  } catch (cause) {
    const hint = 'Read one JSON value per line with --format jsonl';
    throw invalidFile(name, expected, `a file that is not JSON (${(cause as Error).message}). ${hint}`, cause);
  }
  if (!Array.isArray(list)) throw invalidFile(name, expected, JSON.stringify(list).slice(0, 80));
  for (const [index, value] of list.entries()) {
    const at = `${name}[${index}]`;
    yield { value: record(value, at), origin: { ...origin, index }, at };
  }
}

async function* tableRows(
  read: Decoder,
  name: string,
  origin: Origin,
  { delimiter = ',', columns = new Map(), onRead }: RowOptions,
): AsyncGenerator<Row> {
  const rows = csvRows(read, delimiter);
  let header: string[] | undefined;
  let least = 0;
  let number = 0;
  let end = 0;
  for await (const { record: row, info } of rows as AsyncIterable<{ record: string[]; info: { lines: number } }>) {
    number++;
    onRead?.(read.unit * rows.info.bytes);
    const line = end + 1;
    end = info.lines;
    if (!header) {
      header = row;
      for (const [column, option] of columns) {
        const at = row.indexOf(column);
        if (at < 0) throw noColumn(name, column, option, row, delimiter);
        least = Math.max(least, at + 1);
      }
    } else if (row.length > 1 || row[0] !== '') {
      const at = `${name}: row ${number}`;
      if (row.length < least) throw invalidFile(at, `at least ${least} cells`, `${row.length}`);
      const value = Object.fromEntries(header.map((column, i) => [column, row[i]]));
      yield { value, origin: { ...origin, line }, at };
    }
  }
}

function noColumn(file: string, column: string, option: string, row: string[], delimiter: string): HeedError {
  const other = row.length === 1 && [';', '\t', '|', ','].find((each) => each !== delimiter && row[0]!.includes(each));
  const hint = other
    ? `Name what separates the columns with --delimiter ${other === '\t' ? 'tab' : `'${other}'`}`
    : `Name another with ${option}`;
  return invalidFile(file, `a column '${column}'`, `${row.join(', ')}. ${hint}`);
}

/** The rows of a CSV file (RFC 4180): for each its cells, and the number of lines up to its end. */
export function csvRows(text: AsyncIterable<string>, delimiter = ','): Parser {
  const options = { bom: true, record_delimiter: ['\r\n', '\n'], relax_column_count: true, relax_quotes: true };
  return pipeline(text, parse({ ...options, delimiter, info: true }), () => {}); // errors reach the reader of the parser
}
