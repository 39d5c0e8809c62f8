/** Reads files or standard input as a stream of rows: plain lines, JSON lines, JSON arrays, or CSV and TSV with a header. */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { CsvError, type Parser, parse } from 'csv-parse';
import { HeedError } from '../index.js';
import {
  asRecord,
  type Encoding,
  encodingOf,
  endsInCr,
  type Format,
  formatOf,
  hasInnerCr,
  invalid,
  invalidFile,
  isBinary,
  type JsonRecord,
  LineSplitter,
  notText,
  type RawLine,
  recordOfLine,
  textOfLine,
  unitOf,
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

/** The location of a row, as written to the output. */
export interface Origin {
  /** Path of the file; absent for standard input. */
  file?: string;
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
  /** Called with the number of bytes read so far. */
  onRead?: (bytes: number) => void;
}

/** Options that only some formats have, by their names on the command line. */
export interface FormatSpecific {
  '--field'?: string | undefined;
  '--id'?: string | undefined;
  '--delimiter'?: string | undefined;
}

const formatIn = (file: string, { format, fallback = 'lines' }: RowOptions): Format =>
  format ?? formatOf(file) ?? fallback;

/** @throws HeedError for an option that applies to none of the files */
export function requireApplicable(files: readonly string[], options: RowOptions, given: FormatSpecific): void {
  const formats = files.map((file) => formatIn(file, options));
  const require = (name: keyof FormatSpecific, expected: string, legal: (format: Format) => boolean) => {
    if (given[name] === undefined || formats.some(legal)) return;
    throw invalid(name, expected, `${[...new Set(formats)].join(', ')}. Name another format with --format`);
  };
  for (const name of ['--field', '--id'] as const)
    require(name, 'a file with keys or columns', (each) => each !== 'lines');
  require('--delimiter', 'a CSV file', (each) => each === 'csv');
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
  const bytes = new Source(file === '-' ? process.stdin : createReadStream(file));
  const read = new Decoder(bytes, name);
  const origin: Origin = file === '-' ? {} : { file };
  try {
    if (format === 'lines' || format === 'jsonl') yield* lineRows(bytes, name, origin, format, options);
    else if (format === 'json') yield* arrayRows(read, name, origin);
    else yield* tableRows(read, name, origin, { ...options, ...(format === 'tsv' && { delimiter: '\t' }) });
  } catch (cause) {
    if (cause instanceof HeedError) throw cause;
    if (cause instanceof CsvError)
      throw invalid(name, 'CSV as in RFC 4180', `a file that cannot be parsed (${cause.message})`, 'INVALID_FILE', {
        cause,
      });
    throw unreadable(file, cause);
  }
}

/** The bytes of a file or of standard input, and their encoding. */
class Source {
  /** Set when the first bytes are read. */
  encoding: Encoding = 'utf-8';
  readonly #bytes: AsyncIterable<Uint8Array>;

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.#bytes = bytes;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    let start: Uint8Array | null = new Uint8Array();
    for await (const bytes of this.#bytes) {
      if (start) start = start.length === 0 ? bytes : Buffer.concat([start, bytes]);
      if (start && start.length < 2) continue;
      if (start) this.encoding = encodingOf(start);
      yield start ?? bytes;
      start = null;
    }
    if (start && start.length > 0) yield start;
  }
}

/**
 * Decodes bytes. Rejects encodings other than UTF-8 and UTF-16, and binary files, because their texts would be silently
 * wrong.
 */
class Decoder {
  readonly #source: Source;
  readonly #name: string;

  constructor(source: Source, name: string) {
    this.#source = source;
    this.#name = name;
  }

  /** Bytes per code unit, to estimate how much of a file has been read. */
  get unit(): 1 | 2 {
    return unitOf(this.#source.encoding);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    let decoder: TextDecoder | undefined;
    for await (const bytes of this.#source) {
      decoder ??= new TextDecoder(this.#source.encoding, { fatal: true });
      yield this.#decode(decoder, bytes);
    }
    if (decoder) yield this.#decode(decoder);
  }

  /** Decodes bytes or, without `bytes`, finishes decoding. */
  #decode(decoder: TextDecoder, bytes?: Uint8Array): string {
    return decoded(this.#name, decoder.encoding, () => decoder.decode(bytes, { stream: bytes !== undefined }));
  }
}

/** Returns the result of `decode`, or throws if it is not text. */
function decoded(name: string, encoding: string, decode: () => string): string {
  let text: string;
  try {
    text = decode();
  } catch (cause) {
    throw notText(name, encoding, cause);
  }
  if (text.includes('\0')) throw isBinary(name);
  return text;
}

/**
 * Lines that end in LF or CRLF. Node's readline is not used, because it also splits at U+2028 and U+2029, which texts
 * may contain.
 */
async function* lineRows(
  source: Source,
  name: string,
  origin: Origin,
  format: 'lines' | 'jsonl',
  { onRead }: RowOptions,
): AsyncGenerator<Row> {
  let number = 0;
  let read = 0;
  function* rows(lines: Iterable<RawLine>): Generator<Row> {
    const { encoding } = source;
    for (const { bytes, ended } of lines) {
      number++;
      const at = `${name}:${number}`;
      if (bytes && number === 1 && !ended && hasInnerCr(bytes, encoding)) throw endsInCr(name);
      read += (bytes?.length ?? 0) + unitOf(encoding);
      onRead?.(read);
      const found = textOfLine(bytes, encoding, number === 1);
      if ('problem' in found) {
        if (found.problem === 'binary') throw isBinary(name);
        if (found.problem === 'not text') throw notText(name, encoding, found.cause);
        throw invalidFile(at, `a line of at most ${MAX_RECORD_BYTES.toLocaleString('en')} bytes`, 'a longer one');
      }
      const { text: line } = found;
      if (line === '' && !ended) continue; // a file that has only a byte order mark
      if (format === 'lines') yield { value: line, origin: { ...origin, line: number }, at };
      else if (line.trim() !== '') yield { value: jsonValue(line, at), origin: { ...origin, line: number }, at };
    }
  }
  let splitter: LineSplitter | undefined;
  for await (const piece of source) {
    splitter ??= new LineSplitter(MAX_RECORD_BYTES, source.encoding);
    yield* rows(splitter.push(piece));
  }
  if (splitter) yield* rows(splitter.end());
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

async function* arrayRows(read: Decoder, name: string, origin: Origin): AsyncGenerator<Row> {
  const expected = 'a JSON array of texts or of objects';
  const chunks: string[] = [];
  let length = 0;
  for await (const chunk of read) {
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
    yield { value: record, origin: { ...origin, index }, at };
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
      yield { value, origin: { ...origin, line }, at };
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
