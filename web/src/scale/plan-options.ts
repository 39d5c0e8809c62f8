/** Options that several functions for Node share, and their abort signal. */

import { describe, invalid } from '../base/error.js';
import * as loop from '../base/event-loop.js';
import { legal, optional, type Reader, text } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';

/** An AbortSignal. */
export type Signal = SignalLike;

/** Settles as `promise` does, or rejects with the signal's reason as soon as it aborts. */
export const abortable = <T>(signal: Signal | undefined, promise: Promise<T>): Promise<T> =>
  loop.abortable(promise, signal);

/** A path, a URL or a name. */
export const nonempty: Reader<string> = (value, name) => {
  if (text(value, name) !== '') return value as string;
  throw invalid(name, 'a string that is not empty', describe(value));
};

export const string = optional(nonempty, undefined);

/** Seconds. `least`: the minimum. */
export const seconds = (least: number): Reader<number | undefined> =>
  optional(
    legal<number>(`a number of at least ${least}`, (value) => typeof value === 'number' && value >= least),
    undefined,
  );

/** Options of servers, which `workEmbedding` and `finishEmbedding` share. */
export const serverSchema = { queue: string, queueTimeout: seconds(0), to: string, table: string };

/** @throws HeedError for an option of a server that is not given */
export function requireServers(
  owner: string,
  options: { queue: unknown; queueTimeout: unknown; lock?: unknown; to: unknown; table: unknown },
): void {
  for (const [needed, names] of [
    ['queue', ['queueTimeout', 'lock']],
    ['to', ['table']],
  ] as const)
    for (const name of names)
      if (options[needed] === undefined && options[name] !== undefined)
        throw invalid(`${owner}.${name}`, `undefined without \`${needed}\``, describe(options[name]));
}
