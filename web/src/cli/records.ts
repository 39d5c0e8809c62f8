/** Streams the texts that commands read from files or standard input. */
import { type Stats, statSync } from 'node:fs';
import { invalid, invalidFile, unreadable } from '../node/index.js';
import { type FormatOptions, type Origin, type Row, requireApplicable, rowsOf } from './rows.js';

/** The default of --field. */
const DEFAULT_FIELD = 'text';

export interface RecordOptions extends FormatOptions {
  /** Key or column of the text. Default 'text'. */
  field?: string;
  /** Key or column of the id, which is copied to the output. Default: 'id', if it exists. */
  id?: string;
  /** Whether records may have `descriptions` in addition to the text. */
  described?: boolean;
}

/** The location of a text, as written to the output. */
export interface Place extends Origin {
  /** Path of the file; absent for standard input. */
  file?: string;
  id?: string | number;
}

/** A text, its location and, for an index, descriptions of its meaning. */
export interface Entry {
  text: string;
  /** The text's location, for messages. */
  at: string;
  place: Place;
  descriptions: string[];
}

/** The value of --field if it is not the default, which commander adds. */
export const namedField = ({ field }: { field?: string }) => (field === DEFAULT_FIELD ? undefined : field);

/**
 * Streams the texts of files, or of standard input if there are no files.
 * @throws HeedError from the constructor if a path is not a readable file
 */
export class Input {
  /** Total size of the files; null if one is not a regular file. */
  readonly bytes: number | null;
  readonly #files: string[];
  readonly #options: RecordOptions;
  #read = 0;

  /** `all`: the files that the options are for. Default: `files`. */
  constructor(files: string[], options: RecordOptions, all: readonly string[] = files) {
    this.#files = files.length > 0 ? files : ['-'];
    this.#options = options;
    if (this.#files.filter((file) => file === '-').length > 1)
      throw invalid('files', "'-' (standard input) at most once", `${this.#files.join(' ')}`);
    const { id, delimiter } = options;
    requireApplicable(all.length > 0 ? all : this.#files, options, {
      '--field': namedField(options),
      '--id': id,
      '--delimiter': delimiter,
    });
    const sizes = this.#files.map(sizeOf);
    this.bytes = sizes.reduce((sum, size) => (sum === null || size === null ? null : sum + size), 0);
  }

  /** Fraction of the input that has been read; undefined if its size is unknown. */
  get fraction(): number | undefined {
    return this.bytes ? Math.min(1, this.#read / this.bytes) : undefined;
  }

  /** The texts with their locations, ids and descriptions. @throws HeedError if there are no texts */
  async *entries(): AsyncGenerator<Entry> {
    this.#read = 0;
    const { field = DEFAULT_FIELD, id, ...options } = this.#options;
    const columns = new Map([[field, '--field'], ...(id === undefined ? [] : [[id, '--id'] as const])]);
    const onRead = (bytes: number) => {
      this.#read += bytes;
    };
    let isEmpty = true;
    for (const file of this.#files) {
      for await (const row of rowsOf(file, { ...options, columns, onRead })) {
        isEmpty = false;
        yield entryOf(row, file, field, this.#options);
      }
    }
    const names = this.#files.map((file) => (file === '-' ? 'standard input' : file));
    if (isEmpty) throw invalidFile(names.join(', '), 'at least one text', 'none');
  }
}

/** Size of a file; null if it is not a regular file. @throws HeedError if it cannot be read or is a folder */
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

function entryOf({ value, origin, at }: Row, file: string, field: string, options: RecordOptions): Entry {
  const { id: key, described } = options;
  const located = file === '-' ? origin : { file, ...origin };
  if (typeof value === 'string') return { text: value, at, place: located, descriptions: [] };
  const { [field]: text, [key ?? 'id']: id, descriptions = [] } = value;
  if (typeof text !== 'string')
    throw invalidFile(at, `a text under '${field}'`, `${keysOf(value)}. Name another key with --field`);
  const hasId = typeof id === 'string' || typeof id === 'number';
  if (key !== undefined && !hasId)
    throw invalidFile(at, `a text or a number under '${key}'`, `${keysOf(value)}. Name another key with --id`);
  const place = hasId ? { ...located, id } : located;
  if (!described) return { text, at, place, descriptions: [] };
  if (!Array.isArray(descriptions) || descriptions.some((description) => typeof description !== 'string'))
    throw invalidFile(`${at}: descriptions`, 'a list of texts', JSON.stringify(descriptions).slice(0, 80));
  return { text, at, place, descriptions };
}

/** The keys of a record, for messages. */
export const keysOf = (value: object): string => Object.keys(value).join(', ') || 'an object without keys';

/** All texts of a file. `all`: the files that the options are for. */
export async function allTexts(
  file: string,
  options: RecordOptions,
  all: readonly string[] = [file],
): Promise<string[]> {
  const texts: string[] = [];
  for await (const { text } of new Input([file], options, all).entries()) texts.push(text);
  return texts;
}
