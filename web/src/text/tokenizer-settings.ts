/** Parts of tokenizer.json, each an object whose `type` names a component. */
import { HeedError } from '../base/error.js';

export type Config = Record<string, unknown> & { type?: unknown };

/** The objects of a component that consists of others. */
export const configsIn = (list: unknown): Config[] => (Array.isArray(list) ? list : []);

/** The error for a value that heed does not support, or that is of a wrong type; `part` is a field of tokenizer.json. */
export function unsupported(part: string, expected: string, got: unknown): HeedError {
  const code = typeof got === 'string' ? 'UNSUPPORTED' : 'INVALID_FILE';
  return new HeedError(code, `tokenizer.json: ${part}: expected ${expected}, got ${JSON.stringify(got) ?? 'nothing'}`);
}
