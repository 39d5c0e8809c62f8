/**
 * Reads options objects by a schema with one reader per option, which checks the value. Messages list the valid values.
 * A schema names every option, so that unknown ones are detected, and its type must cover the public interface
 * (`satisfies Schema<...>`).
 */
import { describe, guarded, invalid, needsTraining } from './error.js';
import type { SignalLike, WorkerLike } from './platform.js';
import { MAX_SIZE, readMask, readTensor } from './tensor.js';
import type { RawMask, RawTensor } from './wasm/core.js';

/** Checks the value of one option, which is `undefined` if the caller did not set it. */
export type Reader<T> = (value: unknown, name: string) => T;

/** One reader per option of `Options`. */
export type Schema<Options> = { readonly [K in keyof Options]-?: Reader<unknown> };

/** The result of `readOptions` for a schema, with every option present. */
export type Read<S> = { [K in keyof S]: S[K] extends Reader<infer T> ? T : never };

/** Reads every option of `schema` from `given` exactly once. `owner`: the name of the call, for messages. */
export function readOptions<S extends Record<string, Reader<unknown>>>(
  owner: string,
  schema: S,
  given: unknown = {},
): Read<S> {
  return guarded(owner, () => {
    requireObject(owner, given);
    const names = Object.keys(schema);
    requireKnown(owner, Object.keys(given), names, (schema as FormerNames)[formerNames]);
    return Object.fromEntries(names.map((name) => [name, schema[name]!(given[name], `${owner}.${name}`)])) as Read<S>;
  });
}

function requireObject(owner: string, given: unknown): asserts given is Record<string, unknown> {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw invalid(owner, 'an options object', describe(given));
}

const formerNames = Symbol('former names');
type FormerNames = { readonly [formerNames]?: Readonly<Record<string, string>> | undefined };

/** A part of a schema: former names of options, which are rejected, with the present ones. */
export const formerly = (names: Readonly<Record<string, string>>): FormerNames => ({ [formerNames]: names });

/** Rejects unknown options and lists the known ones. `former`: see `formerly`. */
export function requireKnown(
  owner: string,
  given: readonly string[],
  known: readonly string[],
  former: Readonly<Record<string, string>> = {},
): void {
  const name = given.find((each) => !known.includes(each));
  if (name === undefined) return;
  if (Object.hasOwn(former, name)) throw invalid(owner, `'${former[name]}'`, `'${name}', its former name`);
  if (name === 'backward' || name === 'trainable') throw needsTraining(`${owner}.${name}`);
  throw invalid(owner, known.length === 0 ? 'no options' : knownNames(name, known), `the unknown option '${name}'`);
}

/** Copies options that several functions read, so that the caller's getters run only once. */
export function plainOptions<T extends object>(owner: string, given: T = {} as T): T {
  return guarded(owner, () => {
    requireObject(owner, given);
    return { ...given };
  });
}

/** Makes an option optional: undefined and null give `fallback`. */
export function optional<T, F>(reader: Reader<T>, fallback: F): Reader<T | F> {
  return (value, name) => (value === undefined || value === null ? fallback : reader(value, name));
}

/** Returns a reader that accepts values for which `isLegal` returns true. */
export function legal<T>(expected: string, isLegal: (value: T) => boolean): Reader<T> {
  return (value, name) => {
    if (guarded(name, () => isLegal(value as T))) return value as T;
    throw invalid(name, expected, describe(value));
  };
}

/** A positive integer: a width, a length or a number of heads. */
export const size: Reader<number> = (value, name) => integer(value, name, 1);
/** A positive integer, or Infinity. */
export const sizeOrInfinity: Reader<number> = (value, name) => (value === Infinity ? value : size(value, name));
/** A nonnegative integer. */
export const count: Reader<number> = (value, name) => integer(value, name, 0);

/** The number of layers of a stack. The limit rejects a mistyped number before the layers exhaust the memory. */
export const layerCount: Reader<number> = (value, name) => integer(value, name, 1, 1024);

/** A seed, or an id. */
export const natural = legal<number>(
  'an integer from 0 to 2^53 - 1',
  (value) => Number.isSafeInteger(value) && value >= 0,
);

/** The seed of random draws. Default: chosen at random. */
export const seed: Reader<number> = (value, name) =>
  natural(value ?? Math.floor(Math.random() * Number.MAX_SAFE_INTEGER), name);

/** The maximum finite fp32 number, rounded down. */
const MAX_FLOAT = 3.4e38;
const isNumber = (value: unknown) => typeof value === 'number';

/** The probability of dropping an entry. */
export const rate = legal<number>('a number in [0, 1]', (value) => isNumber(value) && value >= 0 && value <= 1);
export const positive = legal<number>(
  'a positive number',
  (value) => isNumber(value) && value > 0 && value <= MAX_FLOAT,
);
export const notNegative = legal<number>(
  'a finite number >= 0',
  (value) => isNumber(value) && value >= 0 && value < Infinity,
);
export const finite = legal<number>('a finite number', (value) => isNumber(value) && Math.abs(value) <= MAX_FLOAT);
export const flag = legal<boolean>('true or false', (value) => typeof value === 'boolean');
export const text = legal<string>('a string', (value) => typeof value === 'string');

export function oneOf<const T extends string>(values: readonly T[]): Reader<T> {
  return (value, name) => {
    if (values.includes(value as T)) return value as T;
    const expected = `one of ${values.map((v) => `'${v}'`).join(', ')}${nearestHint(value, values)}`;
    throw invalid(name, expected, describe(value));
  };
}

export const tensor: Reader<RawTensor> = (value, name) => readTensor(name, value);
/** Factors on the heads' outputs. Rejects infinities and NaN: an output of 0 times such a factor is NaN. */
export const headMask: Reader<RawTensor> = (value, name) => {
  const read = readTensor(name, value);
  const wrong = read.data.findIndex((factor) => !Number.isFinite(factor));
  if (wrong >= 0) throw invalid(name, 'finite factors', `${read.data[wrong]} at entry ${wrong}`);
  return read;
};
export const mask: Reader<RawMask> = (value, name) => readMask(name, value);

/**
 * More entries than any list here needs. Beyond the maximum length of an array, engines end the process instead of
 * throwing.
 */
const MAX_LIST_LENGTH = 2 ** 25;

/** The length of the caller's array. A proxy may report any length. */
export function lengthOf({ length }: ArrayLike<unknown>, name: string): number {
  if (length <= MAX_LIST_LENGTH) return length;
  throw invalid(name, `at most ${MAX_LIST_LENGTH} entries`, `${length}`, 'OUT_OF_MEMORY');
}

/** Returns a reader that copies an array and checks its entries in order with `reader`. */
export function listOf<T>(reader: Reader<T>, expected: string): Reader<T[]> {
  return (value, name) =>
    guarded(name, () => {
      if (!Array.isArray(value)) throw invalid(name, expected, describe(value));
      return Array.from({ length: lengthOf(value, name) }, (_, i) => reader(value[i], `${name}[${i}]`));
    });
}

/** A text or a list of texts. */
export const texts: Reader<string | string[]> = (value, name) =>
  typeof value === 'string' ? value : listOf(text, 'a string or an array of strings')(value, name);

export const strings = listOf(text, 'an array of strings');

/** A text or a list of texts, as a list. */
export function listOfTexts(input: unknown, name = 'texts'): string[] {
  const given = texts(input, name);
  return typeof given === 'string' ? [given] : given;
}

export const signal = optional(
  legal<SignalLike>('an AbortSignal', ({ throwIfAborted }) => typeof throwIfAborted === 'function'),
  undefined,
);

/** Whether to use a worker, or the worker to use. */
export const workerOption: Reader<boolean | WorkerLike> = (value, name) =>
  guarded(name, () => {
    const { postMessage, on, addEventListener } = (value ?? {}) as Record<string, unknown>;
    const isWorker = typeof postMessage === 'function' && [on, addEventListener].some((f) => typeof f === 'function');
    if (typeof value === 'boolean' || isWorker) return value as boolean | WorkerLike;
    throw invalid(name, 'true, false or a Worker', describe(value));
  });

export function callback<F>(value: unknown, name: string): F | undefined {
  if (value === undefined || value === null || typeof value === 'function')
    return (value ?? undefined) as F | undefined;
  throw invalid(name, 'a function', describe(value));
}

/** Reads an integer from `min` to `max`. `or`: other valid values, for the message. */
export function integer(value: unknown, name: string, min: number, max: number = MAX_SIZE, or = ''): number {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return value as number;
  throw invalid(name, `${or}an integer from ${min} to ${max}`, describe(value));
}

/**
 * The known name that `name` was probably meant to be: the one with the smallest edit distance, among those whose
 * distance is small for their length or which begin as `name` does. null: none is near.
 */
export function nearest(name: string, known: readonly string[]): string | null {
  const given = name.slice(0, 40).toLowerCase();
  const ranked = known.map((candidate) => {
    const lower = candidate.toLowerCase();
    const edits = distance(given, lower);
    const longest = Math.max(given.length, lower.length);
    const begins = Math.min(given.length, lower.length) > 2 && (lower.startsWith(given) || given.startsWith(lower));
    return { candidate, edits, isNear: edits <= 0.4 * longest || begins };
  });
  const near = ranked.filter(({ isNear }) => isNear).sort((a, b) => a.edits - b.edits);
  return near[0]?.candidate ?? null;
}

/** Lists the known names in a message about `name`, which is unknown. */
export function knownNames(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const all = known.join(', ');
  return near === null ? `one of ${all}` : `'${near}' (all: ${all})`;
}

/** A hint to append to a list of legal values in a message; '' if none is near. */
export function nearestHint(value: unknown, known: readonly string[]): string {
  const near = typeof value === 'string' ? nearest(value, known) : null;
  return near === null ? '' : ` (nearest: '${near}')`;
}

/** Edit distance with exchanges of adjacent letters (optimal string alignment), computed row by row. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const edits = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
      const isExchange = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(isExchange ? Math.min(edits, before[j - 2]! + 1) : edits);
    }
    before = row;
    row = next;
  }
  return row[b.length]!;
}
