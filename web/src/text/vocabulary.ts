/** Types and functions that the models of tokenizer.json have in common. */
import { HeedError } from '../base/error.js';
import { type Config, unsupported } from './tokenizer-settings.js';

/** A token of a word, with its range in the word in UTF-16 units. */
export interface Piece {
  id: number;
  text: string;
  start: number;
  end: number;
}

export interface VocabularyModel {
  readonly ids: ReadonlyMap<string, number>;
  /** Splits a nonempty word into tokens. */
  split(word: string): Piece[];
}

/** A limit on ids, far beyond any published vocabulary. Pairs of ids below it fit into a number. */
export const MAX_IDS = 2 ** 26;

/** @throws HeedError INVALID_FILE for ids that tokenizers cannot have. `part`: a field of tokenizer.json */
export function requireId(part: string, token: unknown, id: unknown): number {
  if (Number.isInteger(id) && (id as number) >= 0 && (id as number) < MAX_IDS) return id as number;
  throw unsupported(part, `ids that are whole numbers from 0 to ${MAX_IDS - 1}`, { [String(token)]: id });
}

export function idsOf({ vocab }: Config): Map<string, number> {
  const ids = new Map<string, number>();
  // A loop, because an array of the entries takes twice as long for objects that JSON.parse makes.
  for (const token in vocab as Record<string, number>)
    ids.set(token, requireId('model.vocab', token, (vocab as Record<string, number>)[token]));
  return ids;
}

/** The id of the unknown token. */
export function unknownId(ids: ReadonlyMap<string, number>, token: unknown): number {
  const id = ids.get(String(token));
  if (id !== undefined) return id;
  const problem = `token '${token}' is not in the vocabulary and there is no unknown token`;
  throw new HeedError('INVALID_FILE', `tokenizer.json: ${problem}`);
}

/** Infers the type of a model in a file of an old version, which does not name it. */
export function typeOf({
  vocab,
  merges,
  max_input_chars_per_word: limit,
  continuing_subword_prefix: prefix,
}: Config): string {
  if (Array.isArray(vocab)) return 'Unigram';
  if (merges) return 'BPE';
  return limit === undefined && prefix === undefined ? 'WordLevel' : 'WordPiece';
}
