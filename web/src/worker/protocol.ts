/**
 * All messages between a page and its model's worker. The page numbers its requests; the worker answers each once, with progress in between, and may ask for files while it
 * loads. Both ends are heed's own and of one version, so messages are trusted, and numbers in them stay what they were.
 */
import { describe, HeedError, type HeedErrorCode } from '../error.js';
import type { ModelSource } from '../io/source.js';
import type { ModelConfig, PretrainedModel } from '../models/model.js';
import type { WasmModule } from '../module.js';

/** The methods of a model that a worker runs. */
export type Method = 'encode' | 'embed' | 'tokenize' | 'predict' | 'decode';
export type Arguments<M extends Method> = Parameters<PretrainedModel[M]>;

export type Request =
  /** The first message: loads the worker's one model. `source` is null where the page serves the files, see `FileRequest`. */
  | { type: 'load'; id: number; source: ModelSource | null; options: object; wasm: WasmModule; progress: boolean }
  /** `options` is the method's last argument without what cannot be cloned; `progress`: whether to report it. */
  | { type: 'call'; id: number; method: Method; args: unknown[]; options: object | null; progress: boolean }
  /** The page no longer waits for this call. */
  | { type: 'abort'; id: number }
  /** The answer to a request for a file. */
  | { type: 'file'; id: number; value?: unknown; error?: PackedError };

export type Answer =
  | { type: 'result'; id: number; value: unknown }
  | { type: 'error'; id: number; error: PackedError }
  | { type: 'progress'; id: number; progress: unknown }
  | { type: 'file'; id: number; request: FileRequest };

/** Asks for a file's name and size, or for one chunk of its bytes. */
export interface FileRequest {
  path: string;
  /** How often this worker has opened the file before. */
  nth: number;
  required: boolean;
  chunk?: number;
}

/** What `load` is answered with. */
export interface Loaded {
  config: ModelConfig;
}

/** An error as plain data: structured clones of errors lose their class, and in some engines their cause or stack. */
export interface PackedError {
  packed: true;
  name: string;
  message: string;
  stack: string | undefined;
  code?: HeedErrorCode;
  cause?: unknown;
}

/** More causes than errors have, unless one is its own cause. */
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

/** The error with the stack that it had in the worker. */
export function unpackError({ name, message, stack, code, cause }: PackedError): Error {
  const error = code ? new HeedError(code, message) : new Error(message);
  const set = (key: string, value: unknown) =>
    Object.defineProperty(error, key, { value, configurable: true, writable: true });
  set('name', name);
  if (stack !== undefined) set('stack', stack);
  if (cause !== undefined) set('cause', (cause as PackedError).packed ? unpackError(cause as PackedError) : cause);
  return error;
}
