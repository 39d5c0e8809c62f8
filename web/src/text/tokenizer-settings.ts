/** A part of tokenizer.json: an object whose `type` names a component. */
import { HeedError } from '../base/error.js';

export type Config = Record<string, unknown> & { type?: unknown };

/** The components of a composite component. */
export const configsIn = (list: unknown): Config[] => (Array.isArray(list) ? list : []);

/** Makes the error for a value that heed does not support or whose type is wrong. `part`: a field of tokenizer.json. */
export function unsupported(part: string, expected: string, got: unknown): HeedError {
  const code = typeof got === 'string' ? 'UNSUPPORTED' : 'INVALID_FILE';
  return new HeedError(code, `tokenizer.json: ${part}: expected ${expected}, got ${JSON.stringify(got) ?? 'nothing'}`);
}
