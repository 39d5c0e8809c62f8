/**
 * All that passes between a page and its model's worker. The page asks, numbering its calls; the worker answers each once, with progress in between. Both ends are heed's
 * own and of one version, so messages are trusted, and numbers in them stay what they were.
 */
import { HeedError, type HeedErrorCode } from '../error.js';
import type { ModelConfig, PretrainedModel } from '../models/model.js';
import type { ModelSource } from '../models/source.js';
import type { WasmModule } from '../module.js';

/** The model's methods that cross. */
export type Method = 'encode' | 'embed' | 'tokenize' | 'predict' | 'decode';
export type Arguments<M extends Method> = Parameters<PretrainedModel[M]>;

export type Request =
  /** The first message: makes the model that all others speak of. */
  | { type: 'load'; id: number; source: ModelSource; options: object; wasm: WasmModule; progress: boolean }
  /** `options` is the method's last argument without what cannot be cloned; `progress`: whether to tell of it. */
  | { type: 'call'; id: number; method: Method; args: unknown[]; options: object | null; progress: boolean }
  /** The page no longer waits for this call. */
  | { type: 'abort'; id: number };

export type Answer =
  | { type: 'result'; id: number; value: unknown }
  | { type: 'error'; id: number; error: { code: HeedErrorCode; message: string } }
  | { type: 'progress'; id: number; progress: unknown };

/** What `load` is answered with. */
export interface Loaded {
  config: ModelConfig;
}

export function packError(error: unknown): { code: HeedErrorCode; message: string } {
  if (error instanceof HeedError) return { code: error.code, message: error.message };
  return {
    code: 'INTERNAL',
    message: `worker: ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}`,
  };
}

export function unpackError({ code, message }: { code: HeedErrorCode; message: string }): HeedError {
  return new HeedError(code, message);
}
