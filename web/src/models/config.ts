/** Reading a model folder's JSON files: every value is checked where it is read, and a wrong one names its file and key. */
import { HeedError } from '../error.js';

/** The core's bound on rows of a table, far beyond any published encoder. */
const MAX_COUNT = 2 ** 24;

/** A key, or several by which published files name the same. */
type Keys = string | readonly string[];

/** One JSON object of a model folder. Getters throw INVALID_FILE where a value is not what it must be. */
export class Settings {
  constructor(
    private readonly values: Record<string, unknown>,
    readonly file: string,
  ) {}

  static parse(bytes: Uint8Array, file: string): Settings {
    const value = parseJson(bytes, file);
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new HeedError('INVALID_FILE', `${file}: got JSON that is no object; expected settings by name`);
    return new Settings(value as Record<string, unknown>, file);
  }

  /** The raw value, undefined where absent or null. */
  get(key: string): unknown {
    return Object.hasOwn(this.values, key) ? (this.values[key] ?? undefined) : undefined;
  }

  /** A whole number from `low` to `high` under the first of `keys` that is there. */
  count(keys: Keys, fallback?: number, low = 0, high = MAX_COUNT): number {
    const expected = `a whole number from ${low} to ${high}`;
    return this.number(keys, fallback, (v) => Number.isInteger(v) && v >= low && v <= high, expected);
  }

  /** A number between `low` and `high`, both excluded, in single precision too. */
  between(keys: Keys, low: number, high: number, fallback?: number): number {
    const expected = high === Infinity ? `a finite number above ${low}` : `a number between ${low} and ${high}`;
    return this.number(keys, fallback, (v) => Math.fround(v) > low && Math.fround(v) < high, expected);
  }

  flag(key: string, fallback: boolean): boolean {
    const value = this.get(key) ?? fallback;
    if (typeof value !== 'boolean') throw this.wrong(key, value, 'true or false');
    return value;
  }

  text(key: string, fallback: string): string {
    const value = this.get(key) ?? fallback;
    if (typeof value !== 'string') throw this.wrong(key, value, 'a string');
    return value;
  }

  record(key: string): Settings | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value !== 'object' || Array.isArray(value)) throw this.wrong(key, value, 'an object');
    return new Settings(value as Record<string, unknown>, `${this.file}: ${key}`);
  }

  entries(): [string, unknown][] {
    return Object.entries(this.values);
  }

  wrong(key: string, got: unknown, expected: string): HeedError {
    return new HeedError('INVALID_FILE', `${this.file}: ${key}: got ${shown(got)}; expected ${expected}`);
  }

  /** The first of `keys` that is there. */
  keyOf(keys: Keys): string {
    const names = typeof keys === 'string' ? [keys] : keys;
    return names.find((name) => this.get(name) !== undefined) ?? names[0]!;
  }

  private number(keys: Keys, fallback: number | undefined, legal: (v: number) => boolean, expected: string): number {
    const key = this.keyOf(keys);
    const value = this.get(key) ?? fallback;
    if (typeof value !== 'number' || !legal(value)) throw this.wrong(key, value, expected);
    return value;
  }
}

export function parseJson(bytes: Uint8Array, file: string): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new HeedError('INVALID_FILE', `${file}: got ${bytes.length} bytes that are no JSON`, { cause });
  }
}

function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
