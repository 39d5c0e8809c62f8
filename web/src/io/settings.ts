/**
 * Reads the JSON files of a model's folder. Every value is checked when it is read, and the error for an invalid one
 * names its file and key.
 */
import { type HeedError, invalid, invalidFile } from '../base/error.js';
import { parseJson } from './files.js';

/** The maximum number of rows of a table, far beyond any published encoder. */
const MAX_COUNT = 2 ** 24;

/** A key, or several keys that published files use for the same setting. */
type Keys = string | readonly string[];

/**
 * A JSON object in a model's folder. The methods throw INVALID_FILE for invalid values. A key whose value is null
 * counts as absent.
 */
export class Settings {
  readonly #values: Record<string, unknown>;
  readonly file: string;

  constructor(values: unknown, file: string, expected = 'an object', got?: string) {
    if (typeof values !== 'object' || values === null || Array.isArray(values))
      throw invalidFile(file, expected, got ?? shown(values));
    this.#values = values as Record<string, unknown>;
    this.file = file;
  }

  static parse(bytes: Uint8Array, file: string): Settings {
    return new Settings(parseJson(bytes, file), file, 'a JSON object');
  }

  /** The unchecked value; undefined if absent. */
  get(key: string): unknown {
    return Object.hasOwn(this.#values, key) ? (this.#values[key] ?? undefined) : undefined;
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

  record(key: string): Settings | undefined {
    const value = this.get(key);
    return value === undefined ? undefined : new Settings(value, `${this.file}: ${key}`);
  }

  entries(): [string, unknown][] {
    return Object.entries(this.#values);
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
    return names.find((name) => this.get(name) !== undefined) ?? names[0]!;
  }

  /**
   * Reads the value under the first of `keys` that is present. Its type must be that of `fallback`, or number if there
   * is none.
   */
  #checked<T = number>(keys: Keys, fallback: T | undefined, isLegal: (value: T) => boolean, expected: string): T {
    const key = this.keyOf(keys);
    const value = this.get(key) ?? fallback;
    if (typeof value !== typeof (fallback ?? 0) || !isLegal(value as T)) throw this.wrong(key, expected, value);
    return value as T;
  }
}

function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
