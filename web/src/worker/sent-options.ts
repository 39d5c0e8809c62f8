/** The options of a call as they are sent to a worker. */

import type { SignalLike } from '../base/platform.js';
import { plainEdit, type ReadEdit } from '../base/sites.js';
import type { CallOptions } from '../models/model.js';

/** The options of a call that stay in this thread. */
export interface Control {
  signal?: SignalLike;
  onProgress?: (progress: never) => void;
}

/** Options that have been read: plain data, apart from those that stay in this thread. */
export type SentOptions = Pick<CallOptions, 'signal' | 'onProgress' | 'edit'> & { read?: unknown; textPairs?: unknown };

/** The options that were read as they are sent. Throws the signal's reason if it has fired. */
export function sentOptions<R extends object>(read: R): Omit<R, keyof SentOptions> & SentOptions {
  const { signal, edit, ...rest } = read as { signal?: SignalLike; edit?: ReadEdit[] | null };
  signal?.throwIfAborted();
  return { ...rest, ...(signal && { signal }), ...(edit && { edit: edit.map(plainEdit) }) } as never;
}
