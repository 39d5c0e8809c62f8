/** A part of tokenizer.json: an object whose `type` names a component. */
import { HeedError } from '../base/error.js';
import type { Settings } from '../io/settings.js';

export type Config = Record<string, unknown> & { type?: unknown };

/** The components of a composite component. */
export const configsIn = (list: unknown): Config[] => (Array.isArray(list) ? list : []);

/** Pre-tokenizers that discard spaces: in any context, words end at white space. */
export const WITHOUT_SPACES: readonly unknown[] = ['BertPreTokenizer', 'Whitespace', 'WhitespaceSplit'];

/** Makes the error for a value that heed does not support or whose type is wrong. `part`: a field of tokenizer.json. */
export function unsupported(part: string, expected: string, got: unknown): HeedError {
  const code = typeof got === 'string' ? 'UNSUPPORTED' : 'INVALID_FILE';
  return new HeedError(code, `tokenizer.json: ${part}: expected ${expected}, got ${JSON.stringify(got) ?? 'nothing'}`);
}

/** A folder's tokenizer, and the settings that tokenizer.json does not have. */
export interface ClassTokenizer {
  /** A tokenizer.json. */
  json: Settings;
  /** Whether the tokenizer gives token types; otherwise, the types of all tokens are 0. */
  hasTypes: boolean;
  /** Whether special tokens in texts are split like other text. */
  splitsSpecial: boolean;
  /** Why texts cannot be tokenized. */
  refused?: string | undefined;
}

/** The files that determine a tokenizer besides tokenizer.json. */
export interface TokenizerFiles {
  /** tokenizer_config.json. */
  settings: Settings | undefined;
  /** config.json. */
  config: Settings | undefined;
  /** Reads another file of the same folder; null if it is absent. */
  read(name: string): Promise<Settings | null>;
}
