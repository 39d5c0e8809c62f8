/**
 * Reads the JSON files of a model's folder. Every value is checked when it is read, and the error for an invalid one
 * names its file and key.
 */
import { type HeedError, invalid, invalidFile } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import { type ModelFolder, type OpenFile, parseJson, readAll } from './files.js';

/** The maximum number of rows of a table, far beyond any published encoder. */
const MAX_COUNT = 2 ** 24;

/** A key, or several keys that published files use for the same setting. */
type Keys = string | readonly string[];

/** The keys that have been read. The value: the keys below it, if it was read key by key; null: all of it was read. */
type ReadKeys = Map<string, ReadKeys | null>;

/**
 * A JSON object in a model's folder. The methods throw INVALID_FILE for invalid values. A key whose value is null
 * counts as absent. Every method that returns a value also notes that its key has been read, see `SettingsRecord`.
 */
export class Settings {
  readonly #values: Record<string, unknown>;
  readonly #read: ReadKeys;
  readonly file: string;

  constructor(values: unknown, file: string, expected = 'an object', read: ReadKeys = new Map()) {
    if (typeof values !== 'object' || values === null || Array.isArray(values))
      throw invalidFile(file, expected, shown(values));
    this.#values = values as Record<string, unknown>;
    this.#read = read;
    this.file = file;
  }

  static parse(bytes: Uint8Array, file: string, read?: ReadKeys): Settings {
    return new Settings(parseJson(bytes, file), file, 'a JSON object', read);
  }

  /** Reads a file. If it is one of a `SettingsRecord`, its keys that nothing reads are reported. */
  static async read(file: OpenFile, onBytes?: (count: number) => void): Promise<Settings> {
    const place = places.get(file);
    const settings = Settings.parse(await readAll(file, onBytes), file.name, place?.read);
    if (place) place.settings = settings;
    return settings;
  }

  /** Reads a file of a folder; null if it is absent. */
  static async in(folder: ModelFolder, path: string, signal: SignalLike | undefined): Promise<Settings | null> {
    const file = await folder.open(path, { signal });
    return file && Settings.read(file);
  }

  /** These settings, with defaults for absent ones. */
  withDefaults(defaults: object): Settings {
    const present = Object.entries(this.#values).filter(([, value]) => value !== null);
    return this.with({ ...defaults, ...Object.fromEntries(present) });
  }

  /** These settings, with other values for some keys. */
  with(values: object): Settings {
    return new Settings({ ...this.#values, ...values }, this.file, undefined, this.#read);
  }

  /** The unchecked value; undefined if absent. */
  get(key: string): unknown {
    if (!this.#read.has(key)) this.#read.set(key, null);
    return this.#value(key);
  }

  /** Reads an integer from `low` to `high` under the first of `keys` that is present. */
  count(keys: Keys, fallback?: number, low = 0, high = MAX_COUNT): number {
    const expected = `a whole number from ${low} to ${high}`;
    return this.#checked(keys, fallback, (v) => Number.isInteger(v) && v >= low && v <= high, expected);
  }

  /** Reads a number between `low` and `high`, exclusive, also after rounding to single precision. */
  between(keys: Keys, low: number, high: number, fallback?: number): number {
    const expected = high === Infinity ? `a finite number above ${low}` : `a number between ${low} and ${high}`;
    return this.#checked(keys, fallback, (v) => Math.fround(v) > low && Math.fround(v) < high, expected);
  }

  flag(key: string, fallback: boolean): boolean {
    return this.#checked(key, fallback, () => true, 'true or false');
  }

  text(key: string, fallback: string): string {
    return this.#checked(key, fallback, () => true, 'a string');
  }

  /** The object under `key`, whose keys are read one by one. */
  record(key: string): Settings | undefined {
    const value = this.#value(key);
    if (value === undefined) return undefined;
    const before = this.#read.get(key);
    const read = before ?? new Map();
    if (before !== null) this.#read.set(key, read);
    return new Settings(value, `${this.file}: ${key}`, undefined, read);
  }

  /** The names of all keys, also of those whose value is null. Does not count as reading them. */
  names(): string[] {
    return Object.keys(this.#values);
  }

  /** All values whose keys begin with `prefix`. */
  entries(prefix = ''): [string, unknown][] {
    const found = Object.entries(this.#values).filter(([key]) => key.startsWith(prefix));
    for (const [key] of found) this.get(key);
    return found;
  }

  /** The paths of the keys that have a value and have not been read, such as 'foo' and 'bar.baz'. */
  unread(): string[] {
    return unreadIn(this.#values, this.#read);
  }

  wrong(key: string, expected: string, got: unknown): HeedError {
    return invalidFile(`${this.file}: ${key}`, expected, shown(got));
  }

  /** Makes the error for a value that is valid but not supported. */
  unsupported(key: string, expected: string, got: string): HeedError {
    return invalid(`${this.file}: ${key}`, expected, got, 'UNSUPPORTED');
  }

  /** The first of `keys` that is present. */
  keyOf(keys: Keys): string {
    const names = typeof keys === 'string' ? [keys] : keys;
    return names.find((name) => this.#value(name) !== undefined) ?? names[0]!;
  }

  #value(key: string): unknown {
    return Object.hasOwn(this.#values, key) ? (this.#values[key] ?? undefined) : undefined;
  }

  /**
   * Reads the value under the first of `keys` that is present. Its type must be that of `fallback`, or number if there
   * is none.
   */
  #checked<T = number>(keys: Keys, fallback: T | undefined, isLegal: (value: T) => boolean, expected: string): T {
    const key = this.keyOf(keys);
    const value = this.get(key) ?? fallback;
    // The same value under other names of the setting adds nothing.
    for (const other of [keys].flat()) if (this.#value(other) === value) this.get(other);
    if (typeof value !== typeof (fallback ?? 0) || !isLegal(value as T)) throw this.wrong(key, expected, value);
    return value as T;
  }
}

function unreadIn(values: object, read: ReadKeys): string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value === null) return [];
    const below = read.get(key);
    if (below) return unreadIn(value, below).map((path) => `${key}.${path}`);
    return read.has(key) ? [] : [key];
  });
}

/** One file of a `SettingsRecord`. If it is read several times, the keys are those of all readings. */
interface Place {
  read: ReadKeys;
  settings: Settings | null;
}

const places = new WeakMap<OpenFile, Place>();

/** The settings files of a folder that `Settings.read` and `Settings.in` read, to find the keys that nothing reads. */
export class SettingsRecord {
  readonly #places = new Map<string, Place>();

  /** The folder, whose settings files are recorded as they are read. */
  recording(folder: ModelFolder): ModelFolder {
    const open = async (path: string, options: never) => {
      const file = (await folder.open(path, options)) as OpenFile | null;
      if (!file) return null;
      const place = this.#places.get(path) ?? { read: new Map(), settings: null };
      this.#places.set(path, place);
      places.set(file, place);
      return file;
    };
    return { ...folder, open: open as ModelFolder['open'] };
  }

  /** The settings with unread keys, by the path of the file. */
  unread(): Map<string, Settings> {
    const found = new Map<string, Settings>();
    for (const [path, { settings }] of this.#places) if (settings?.unread().length) found.set(path, settings);
    return found;
  }
}

function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
