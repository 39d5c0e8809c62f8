/** What the models of tokenizer.json have in common. */
import { HeedError } from '../base/error.js';
import type { Config } from './tokenizer-settings.js';

/** A token of a word, and its range in UTF-16 units of the word. */
export interface Piece {
  id: number;
  text: string;
  start: number;
  end: number;
}

export interface VocabularyModel {
  readonly ids: ReadonlyMap<string, number>;
  /** The tokens of a word that is not empty. */
  split(word: string): Piece[];
}

export function idsOf({ vocab }: Config): Map<string, number> {
  const ids = new Map<string, number>();
  // Without an array of the entries, which takes twice as long for the objects that JSON.parse makes.
  for (const token in vocab as Record<string, number>) ids.set(token, (vocab as Record<string, number>)[token]!);
  return ids;
}

/** The token for what the vocabulary lacks. */
export function unknownId(ids: ReadonlyMap<string, number>, token: unknown): number {
  const id = ids.get(String(token));
  if (id !== undefined) return id;
  const problem = `token '${token}' is not in the vocabulary and there is no unknown token`;
  throw new HeedError('INVALID_FILE', `tokenizer.json: ${problem}`);
}
