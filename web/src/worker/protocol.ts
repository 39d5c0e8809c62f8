/**
 * The messages between the main thread and a model's worker. Either end can call methods of the other: the main thread
 * calls `load` and then the model's methods; the worker calls `file` while it loads. Calls are numbered by the caller.
 * Each is answered by one `result` or `error`, after any number of `progress` messages. Both ends have the same version
 * of heed, so messages are not validated, except that those of other scripts are ignored.
 *
 * Comlink is not used: it supports neither cancellation nor the detection of dead workers, and would enlarge the
 * download.
 */
import { describe, HeedError, type HeedErrorCode } from '../base/error.js';
import { Tensor } from '../base/tensor.js';
import type { TextMethod } from '../models/call-options.js';

export type Message =
  /**
   * Calls a method. `options`: its last argument, without `signal` and `onProgress`. `progress`: whether to report
   * progress.
   */
  | { type: 'call'; id: number; method: string; args: unknown[]; options: object | null; progress: boolean }
  /** The caller no longer waits for this call. */
  | { type: 'abort'; id: number }
  | { type: 'progress'; id: number; progress: unknown }
  | { type: 'result'; id: number; value: unknown }
  | { type: 'error'; id: number; error: PackedError };

/**
 * A method to which every worker script of heed answers at once, with the names of its methods other than those of a
 * model.
 */
export const GREETING = 'hello';

/** The methods of a model that run in a worker; `store`: those of an index's vectors there (remote-store.ts). */
export type Method = TextMethod | 'embedImages' | 'encodeImage' | 'decode' | 'store';

/** The argument of `file`: asks for a file's name and size, or for one chunk of its bytes. */
export interface FileRequest {
  path: string;
  /** Number of times that this worker has opened the file before. */
  nth: number;
  required: boolean;
  chunk?: number | undefined;
}

/** Whether a value may contain tensors. Lists of numbers, strings or lists, such as tokens and offsets, do not. */
const isSearched = (value: unknown): boolean =>
  !Array.isArray(value) || (typeof value[0] === 'object' && value[0] !== null && !Array.isArray(value[0]));

/** The distinct buffers in a result, which are transferred to the caller instead of being copied. */
export function buffersOf(value: unknown, found = new Set<ArrayBuffer>()): ArrayBuffer[] {
  if (ArrayBuffer.isView(value)) found.add(value.buffer as ArrayBuffer);
  else if (typeof value === 'object' && value !== null && isSearched(value))
    for (const part of Object.values(value)) buffersOf(part, found);
  return [...found];
}

/**
 * Restores tensors, which lose their class when a result is cloned: every object with `data` and `shape` becomes one.
 * Modifies `value`.
 */
export function revived(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || !isSearched(value)) return value;
  const record = value as Record<string, unknown>;
  for (const [name, part] of Object.entries(record)) record[name] = revived(part);
  if (!('data' in record && 'shape' in record)) return record;
  const { data, shape, ...more } = record;
  return Object.assign(new Tensor(data as Float32Array, shape as number[]), more);
}

/** An error as plain data: structured clones of errors lose their class, and in some engines their cause or stack. */
export interface PackedError {
  packed: true;
  name: string;
  message: string;
  stack: string | undefined;
  code?: HeedErrorCode | undefined;
  cause?: unknown;
}

/** Limit on chains of causes, in case an error is its own cause. */
const MAX_CAUSES = 8;

export function packError(error: unknown): PackedError {
  const known =
    error instanceof HeedError ? error : new HeedError('INTERNAL', `worker: ${describe(error)}`, { cause: error });
  return pack(known, 0) as PackedError;
}

function pack(value: unknown, depth: number): unknown {
  if (!(value instanceof Error) || depth > MAX_CAUSES) return typeof value === 'string' ? value : describe(value);
  const { name, message, stack, cause } = value as Error & { cause?: unknown };
  return {
    packed: true,
    name,
    message,
    stack,
    ...(value instanceof HeedError && { code: value.code }),
    ...(cause !== undefined && { cause: pack(cause, depth + 1) }),
  };
}

/** The error, with the stack that it had in the worker. */
export function unpackError({ name, message, stack, code, cause }: PackedError): Error {
  const error = code ? new HeedError(code, message) : new Error(message);
  const set = (key: string, value: unknown) =>
    Object.defineProperty(error, key, { value, configurable: true, writable: true });
  set('name', name);
  if (stack !== undefined) set('stack', stack);
  if (cause !== undefined) set('cause', (cause as PackedError).packed ? unpackError(cause as PackedError) : cause);
  return error;
}
