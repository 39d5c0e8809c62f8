/** Converts the options of a call to the form in which they are sent to a worker. */
import type { SignalLike } from '../base/platform.js';
import { plainEdit, type ReadEdit } from '../base/site-options.js';
import type { CallOptions } from '../models/model.js';

/** Options of a call that are not sent. */
export interface Control {
  signal?: SignalLike | undefined;
  onProgress?: ((progress: never) => void) | undefined;
}

/** Checked options: plain data, and those that are not sent. */
export type SentOptions = Pick<CallOptions, 'signal' | 'onProgress' | 'edit'> & { read?: unknown; textPairs?: unknown };

/** Converts checked options. Throws the signal's reason if it has been aborted. */
export function sentOptions<C extends object>(call: C): Omit<C, keyof SentOptions> & SentOptions {
  const { signal, edit, ...rest } = call as { signal?: SignalLike | undefined; edit?: ReadEdit[] | null | undefined };
  signal?.throwIfAborted();
  return { ...rest, ...(signal && { signal }), ...(edit && { edit: edit.map(plainEdit) }) } as never;
}
