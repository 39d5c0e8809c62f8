/** Reads files or standard input as a stream of rows: plain lines, JSON lines, JSON arrays, or CSV and TSV with a header. */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { CsvError, type Parser, parse } from 'csv-parse';
import { HeedError } from '../index.js';
import {
  asRecord,
  encodingOf,
  endsInCr,
  type Format,
  formatOf,
  invalid,
  invalidFile,
  isBinary,
  type JsonRecord,
  recordOfLine,
  TEXT,
  unreadable,
} from '../node/index.js';
import { notice, settings } from './terminal.js';

/** Maximum length of a line or of a record of a CSV file. It is far longer than any model's limit of tokens. */
export const MAX_RECORD_BYTES = 16 << 20;

/** Maximum length of a JSON array. It is read as a whole, and JavaScript strings have at most about 2^29 characters. */
const MAX_JSON_LENGTH = 2 ** 28;

export interface FormatOptions {
  /** Format of the file. Default: by its extension, else lines. */
  format?: Format;
  /** Separator of the cells of a CSV file. Default ','. */
  delimiter?: string;
}

/** The location of a row in its file, as written to the output. */
export interface Origin {
  /** Line number, from 1. */
  line?: number;
  /** Index in a JSON array, from 0. */
  index?: number;
}

export interface Row {
  /** The text, or values by key or column. */
  readonly value: JsonRecord;
  readonly origin: Origin;
  /** The row's location, for messages. */
  readonly at: string;
}

export interface RowOptions extends FormatOptions {
  /** Required columns, with the options that name them. */
  columns?: ReadonlyMap<string, string>;
  /** Format of files with unknown extensions. Default 'lines'. */
  fallback?: Format;
  /** Called with the number of bytes of each piece that has been read. */
  onRead?: (bytes: number) => void;
}

const formatIn = (file: string, { format, fallback = 'lines' }: RowOptions): Format =>
  format ?? formatOf(file) ?? fallback;

/** @throws HeedError for an option that applies to none of the files. `given`: options that only some formats have */
export function requireApplicable(
  files: readonly string[],
  options: RowOptions,
  given: { '--field'?: string | undefined; '--id'?: string | undefined; '--delimiter'?: string | undefined },
): void {
  const formats = [...new Set(files.map((file) => formatIn(file, options)))];
  for (const [name, value] of Object.entries(given)) {
    const isForTables = name === '--delimiter';
    if (value === undefined || formats.some((each) => (isForTables ? each === 'csv' : each !== 'lines'))) continue;
    const expected = isForTables ? 'a CSV file' : 'a file with keys or columns';
    throw invalid(name, expected, `${formats.join(', ')}. Name another format with --format`);
  }
}

/**
 * The rows of a file, or of standard input for '-'.
 * @throws HeedError for a file that cannot be read or does not have its format
 */
export async function* rowsOf(file: string, options: RowOptions): AsyncGenerator<Row> {
  const format = formatIn(file, options);
  if (file === '-' && process.stdin.isTTY && !settings.quiet) {
    const end = process.platform === 'win32' ? 'Ctrl-Z and Enter end' : 'Ctrl-D ends';
    notice(`reading texts from standard input, one per line; ${end} them`);
  }
  const name = file === '-' ? 'standard input' : file;
  // Small pieces, so that progress is accurate.
  const bytes = file === '-' ? process.stdin : createReadStream(file, { highWaterMark: 8 << 10 });
  const text = decoded(bytes, name, options.onRead);
  try {
    if (format === 'json') yield* arrayRows(text, name);
    else if (format === 'csv' || format === 'tsv')
      yield* tableRows(text, name, { ...options, ...(format === 'tsv' && { delimiter: '\t' }) });
    else yield* lineRows(text, name, format);
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    if (cause instanceof CsvError)
      throw invalid(name, 'CSV as in RFC 4180', `a file that cannot be parsed (${cause.message})`, 'INVALID_FILE', {
        cause,
      });
    throw unreadable(file, cause);
  }
}

/**
 * Decodes bytes. Rejects encodings other than UTF-8 and UTF-16, and binary files, because their texts would be silently
 * wrong.
 */
async function* decoded(
  bytes: AsyncIterable<Uint8Array>,
  name: string,
  onRead: RowOptions['onRead'],
): AsyncGenerator<string> {
  let decoder: TextDecoder | undefined;
  let rest = new Uint8Array();
  const decode = (isLast: boolean): string => {
    decoder ??= new TextDecoder(encodingOf(rest), { fatal: true });
    let text: string;
    try {
      text = decoder.decode(rest, { stream: !isLast });
    } catch (cause) {
      const hint = 'A text in another encoding is converted by, for example, iconv -f WINDOWS-1252 -t UTF-8';
      const got = `bytes that are not ${decoder.encoding.toUpperCase()}`;
      throw invalid(name, TEXT, got, 'INVALID_FILE', { hint, cause });
    }
    if (text.includes('\0')) throw isBinary(name);
    rest = new Uint8Array();
    return text;
  };
  for await (const piece of bytes) {
    rest = rest.length > 0 ? Buffer.concat([rest, piece]) : new Uint8Array(piece);
    if (!decoder && rest.length < 2) continue; // a byte order mark has two bytes
    yield decode(false);
    onRead?.(piece.length);
  }
  yield decode(true);
}

/**
 * Lines that end in LF or CRLF. Node's readline is not used, because it also splits at U+2028 and U+2029, which texts
 * may contain.
 */
async function* lineRows(text: AsyncIterable<string>, name: string, format: 'lines' | 'jsonl'): AsyncGenerator<Row> {
  let number = 0;
  let rest = '';
  function row(line: string): Row | null {
    const at = `${name}:${++number}`;
    requireLength(line, at);
    const value = line.endsWith('\r') ? line.slice(0, -1) : line;
    if (format === 'lines') return { value, origin: { line: number }, at };
    return value.trim() === '' ? null : { value: jsonValue(value, at), origin: { line: number }, at };
  }
  for await (const piece of text) {
    const lines = piece.split('\n');
    lines[0] = rest + lines[0]!;
    rest = lines.pop()!;
    for (const line of lines) {
      const found = row(line);
      if (found) yield found;
    }
    if (rest.length > MAX_RECORD_BYTES) requireLength(rest, `${name}:${number + 1}`);
  }
  if (number === 0 && /\r./s.test(rest)) throw endsInCr(name);
  const last = rest === '' || rest === '\r' ? null : row(rest);
  if (last) yield last;
}

/** @throws HeedError for a line of more than MAX_RECORD_BYTES in UTF-8 */
function requireLength(line: string, at: string): void {
  if (3 * line.length > MAX_RECORD_BYTES && Buffer.byteLength(line) > MAX_RECORD_BYTES)
    throw invalidFile(at, `a line of at most ${MAX_RECORD_BYTES.toLocaleString('en')} bytes`, 'a longer one');
}

const OBJECT = 'a text or an object, such as {"text": "..."}';

function jsonValue(line: string, at: string): JsonRecord {
  const read = recordOfLine(line);
  if ('record' in read) return read.record;
  if ('value' in read) throw notRecord(read.value, at);
  const hint = line.trimStart().startsWith('[') ? '. Read a JSON array with --format json' : '';
  throw invalid(at, OBJECT, `a line that is not JSON${hint}`, 'INVALID_FILE', { cause: read.cause });
}

const notRecord = (value: unknown, at: string) => invalidFile(at, OBJECT, JSON.stringify(value).slice(0, 80));

async function* arrayRows(text: AsyncIterable<string>, name: string): AsyncGenerator<Row> {
  const expected = 'a JSON array of texts or of objects';
  const chunks: string[] = [];
  let length = 0;
  for await (const chunk of text) {
    length += chunk.length;
    const most = `${expected}, of at most ${MAX_JSON_LENGTH.toLocaleString('en')} characters`;
    if (length > MAX_JSON_LENGTH) throw invalidFile(name, most, 'a longer one. Read one JSON value per line');
    chunks.push(chunk);
  }
  const json = chunks.join('');
  let list: unknown;
  try {
    list = JSON.parse(json);
  } catch (cause) {
    const hint = 'Read one JSON value per line with --format jsonl';
    throw invalid(name, expected, `a file that is not JSON (${(cause as Error).message}). ${hint}`, 'INVALID_FILE', {
      cause,
    });
  }
  if (!Array.isArray(list)) throw invalidFile(name, expected, JSON.stringify(list).slice(0, 80));
  for (const [index, value] of list.entries()) {
    const at = `${name}[${index}]`;
    const record = asRecord(value);
    if (record === null) throw notRecord(value, at);
    yield { value: record, origin: { index }, at };
  }
}

async function* tableRows(
  text: AsyncIterable<string>,
  name: string,
  { delimiter = ',', columns = new Map() }: RowOptions,
): AsyncGenerator<Row> {
  const rows = csvRows(text, delimiter);
  let header: string[] | undefined;
  let least = 0;
  let number = 0;
  let end = 0;
  for await (const { record: row, info } of rows as AsyncIterable<{ record: string[]; info: { lines: number } }>) {
    number++;
    const line = end + 1;
    end = info.lines;
    if (!header) {
      header = row;
      if (row.some((cell) => /\r./s.test(cell))) throw endsInCr(name);
      for (const [column, option] of columns) {
        const at = row.indexOf(column);
        if (at < 0) throw noColumn(name, column, option, row, delimiter);
        if (row.includes(column, at + 1)) throw invalidFile(name, `one column '${column}'`, 'several');
        least = Math.max(least, at + 1);
      }
    } else if (row.length > 1 || row[0] !== '') {
      const at = `${name}: row ${number}`;
      if (row.length < least) throw invalidFile(at, `at least ${least} cells`, `${row.length}`);
      // Otherwise, a text with an unquoted delimiter would be cut.
      if (row.length > header.length)
        throw invalidFile(
          at,
          `at most ${header.length} cells, as the header has`,
          `${row.length}. Put cells that contain the delimiter in double quotes`,
        );
      const value = Object.fromEntries(header.map((column, i) => [column, row[i]]));
      yield { value, origin: { line }, at };
    }
  }
}

function noColumn(file: string, column: string, option: string, row: string[], delimiter: string): HeedError {
  const other = row.length === 1 && [';', '\t', '|', ','].find((each) => each !== delimiter && row[0]!.includes(each));
  const hint = other
    ? `Name what separates the columns with --delimiter ${other === '\t' ? 'tab' : `'${other}'`}`
    : `Name another with ${option}`;
  return invalidFile(file, `a column '${column}'`, `${row.join(', ').slice(0, 200)}. ${hint}`);
}

/** The rows of a CSV file (RFC 4180): the cells of each, and the number of lines up to its end. */
export function csvRows(text: AsyncIterable<string>, delimiter = ','): Parser {
  const options = {
    bom: true,
    record_delimiter: ['\r\n', '\n'],
    relax_column_count: true,
    relax_quotes: true,
    max_record_size: MAX_RECORD_BYTES,
  };
  return pipeline(text, parse({ ...options, delimiter, info: true }), () => {}); // errors are thrown to the consumer of the parser
}
