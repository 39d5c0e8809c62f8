/**
 * Options objects, read by a schema: one reader per option, which checks the value and says what is legal. A schema names every option there is, so unknown ones are
 * found, and its type must cover the public interface (`satisfies Schema<...>`).
 */

import type { RawMask, RawTensor } from './core.js';
import { describe, guarded, HeedError, invalid } from './error.js';
import type { SignalLike } from './platform.js';
import { MAX_SIZE, readMask, readTensor } from './tensor.js';

/** Checks one option's value; `undefined` where the caller gave none. */
export type Reader<T> = (value: unknown, name: string) => T;

/** A reader for each option of `Options`. */
export type Schema<Options> = { readonly [K in keyof Options]-?: Reader<unknown> };

/** What `readOptions` gives for a schema: every option present. */
export type Read<S> = { [K in keyof S]: S[K] extends Reader<infer T> ? T : never };

/** Reads every option of `schema` from `given` once; `owner` names the call in messages. */
export function readOptions<S extends Record<string, Reader<unknown>>>(
  owner: string,
  schema: S,
  given: unknown = {},
): Read<S> {
  return guarded(owner, () => {
    if (typeof given !== 'object' || given === null || Array.isArray(given))
      throw invalid(owner, describe(given), 'an options object');
    requireKnown(owner, Object.keys(given), Object.keys(schema));
    const read: Record<string, unknown> = {};
    for (const name of Object.keys(schema))
      read[name] = schema[name]!((given as Record<string, unknown>)[name], `${owner}.${name}`);
    return read as Read<S>;
  });
}

/** Refuses options that do not exist, naming the nearest one that does. */
export function requireKnown(owner: string, given: readonly string[], known: readonly string[]): void {
  const name = given.find((each) => !known.includes(each));
  if (name === undefined) return;
  const hint = known.length === 0 ? 'no options' : `${nearest(name, known)} (all: ${known.join(', ')})`;
  throw new HeedError('INVALID_ARGUMENT', `${owner}: got the unknown option '${name}'; expected ${hint}`);
}

/** A copy of options that several callees share, each of which reads its own: looked at once, so that no getter of theirs can throw later. */
export function plainOptions<T extends object>(owner: string, given: T | undefined): T {
  return guarded(owner, () => {
    if (given === undefined) return {} as T;
    if (typeof given !== 'object' || given === null || Array.isArray(given))
      throw invalid(owner, describe(given), 'an options object');
    return { ...given };
  });
}

/** An option that may be left out (undefined or null). */
export function optional<T, F>(reader: Reader<T>, fallback: F): Reader<T | F> {
  return (value, name) => (value === undefined || value === null ? fallback : reader(value, name));
}

/** A number of things: a width, a length, a count of heads. */
export const size: Reader<number> = (value, name) => integer(value, name, 1);
/** As `size`, or none at all. */
export const count: Reader<number> = (value, name) => integer(value, name, 0);

/** A stack's layers. Bounded, so that a slip of the hand does not fill the memory layer by layer before it fails. */
export const layerCount: Reader<number> = (value, name) => integer(value, name, 1, 1024);

/** The start of a stream of random draws; chosen at random where it is left out. */
export const seed: Reader<number> = (value, name) => {
  if (value === undefined || value === null) return Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
  if (!Number.isSafeInteger(value) || (value as number) < 0)
    throw invalid(name, describe(value), 'an integer from 0 to 2^53 - 1');
  return value as number;
};

/** The probability of dropping an entry. */
export const rate: Reader<number> = (value, name) => {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value;
  throw invalid(name, describe(value), 'a number in [0, 1]');
};

export const positive: Reader<number> = (value, name) => {
  if (typeof value === 'number' && value > 0 && value <= 3.4e38) return value;
  throw invalid(name, describe(value), 'a positive number');
};

export const finite: Reader<number> = (value, name) => {
  if (typeof value === 'number' && Math.abs(value) <= 3.4e38) return value;
  throw invalid(name, describe(value), 'a finite number');
};

export const flag: Reader<boolean> = (value, name) => {
  if (typeof value === 'boolean') return value;
  throw invalid(name, describe(value), 'true or false');
};

export function oneOf<const T extends string>(values: readonly T[]): Reader<T> {
  return (value, name) => {
    if (values.includes(value as T)) return value as T;
    const hint = typeof value === 'string' ? ` (nearest: ${nearest(value, values)})` : '';
    throw invalid(name, describe(value), `one of ${values.map((v) => `'${v}'`).join(', ')}${hint}`);
  };
}

export const tensor: Reader<RawTensor> = (value, name) => readTensor(name, value);
/** Factors on heads: what is not finite would make 0 times it NaN. */
export const headMask: Reader<RawTensor> = (value, name) => {
  const read = readTensor(name, value);
  const wrong = read.data.findIndex((factor) => !Number.isFinite(factor));
  if (wrong >= 0) throw invalid(name, `${read.data[wrong]} at entry ${wrong}`, 'finite factors');
  return read;
};
export const mask: Reader<RawMask> = (value, name) => readMask(name, value);

export const text: Reader<string> = (value, name) => {
  if (typeof value === 'string') return value;
  throw invalid(name, describe(value), 'a string');
};

/** More entries than any list here needs, and fewer than an engine's array takes: beyond that it ends the process rather than throw. */
const MAX_ENTRIES = 2 ** 25;

/** The length of a caller's array, asked once: what claims to be one may be endless. */
export function lengthOf({ length }: ArrayLike<unknown>, name: string): number {
  if (length <= MAX_ENTRIES) return length;
  throw new HeedError('OUT_OF_MEMORY', `${name}: got ${length} entries; expected at most ${MAX_ENTRIES}`);
}

/** A copy of an array, whose entries `reader` checks from the first on. */
export function listOf<T>(reader: Reader<T>, expected: string): Reader<T[]> {
  return (value, name) =>
    guarded(name, () => {
      if (!Array.isArray(value)) throw invalid(name, describe(value), expected);
      return Array.from({ length: lengthOf(value, name) }, (_, i) => reader(value[i], `${name}[${i}]`));
    });
}

/** One text or several. */
export const texts: Reader<string | string[]> = (value, name) =>
  typeof value === 'string' ? value : listOf(text, 'a string or an array of strings')(value, name);

export const signal: Reader<SignalLike | undefined> = (value, name) => {
  if (value === undefined || value === null) return undefined;
  if (guarded(name, () => typeof (value as SignalLike).throwIfAborted === 'function')) return value as SignalLike;
  throw invalid(name, describe(value), 'an AbortSignal');
};

export function callback<F>(value: unknown, name: string): F | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'function') return value as F;
  throw invalid(name, describe(value), 'a function');
}

/** Reads the length or another plain number that a call takes before its options. `or`: what else it may be. */
export function integer(value: unknown, name: string, least: number, most: number = MAX_SIZE, or = ''): number {
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
  throw invalid(name, describe(value), `${or}an integer from ${least} to ${most}`);
}

/** The known name with the fewest edits from `name`. */
export function nearest(name: string, known: readonly string[]): string {
  const shown = name.slice(0, 40).toLowerCase();
  const ranked = known.map((candidate) => ({ candidate, edits: distance(shown, candidate.toLowerCase()) }));
  ranked.sort((a, b) => a.edits - b.edits);
  return `'${ranked[0]!.candidate}'`;
}

/** Levenshtein's distance, one row at a time. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
