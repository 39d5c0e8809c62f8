/** Checks of the options of the functions for Node, and their abort signal. */
import { invalid } from '../node/index.js';

/** An AbortSignal. */
export interface Signal {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** Settles as `promise` does, or rejects with the signal's reason as soon as it aborts. */
export function abortable<T>(signal: Signal | undefined, promise: Promise<T>): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const settled = () => signal.removeEventListener('abort', abort);
    const abort = () => {
      settled();
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(settled);
    if (signal.aborted) abort();
  });
}

/** Returns null for a valid value, otherwise a description of the expected values. */
type Check = (value: unknown) => string | null;

export const text = (): Check => (value) => (typeof value === 'string' && value !== '' ? null : 'a string');

export const oneOf =
  (legal: readonly unknown[]): Check =>
  (value) =>
    legal.includes(value) ? null : `one of ${legal.join(', ')}`;

export const integer =
  (least: number, most: number): Check =>
  (value) =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most
      ? null
      : `a whole number from ${least} to ${most}`;

export const number =
  (least: number): Check =>
  (value) =>
    typeof value === 'number' && value >= least ? null : `a number of at least ${least}`;

/** Throws if a given option is invalid. */
export function checkOptions(owner: string, schema: Record<string, Check>, options: object): void {
  if (typeof options !== 'object' || options === null) throw invalid(owner, 'an object of options', String(options));
  for (const [name, check] of Object.entries(schema)) {
    const value = (options as Record<string, unknown>)[name];
    const expected = value === undefined ? null : check(value);
    if (expected !== null) throw invalid(`${owner}.${name}`, expected, JSON.stringify(value) ?? typeof value);
  }
}
