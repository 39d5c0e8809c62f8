/** Options that several functions for Node share. */

import { describe, invalid } from '../base/error.js';
import { legal, optional, type Reader, text } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';

/** An AbortSignal. */
export type Signal = SignalLike;

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
