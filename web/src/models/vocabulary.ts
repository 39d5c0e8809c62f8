/** What is checked of tokenizer.json before the library reads it, and what of the library's errors a message shows. */
import type { Settings } from './config.js';

/** What the library, or a wrong regular expression, says; other errors of the engine say nothing about the file. */
export function reasonOf(cause: unknown): string {
  const { name, message } = cause as Error;
  return name === 'Error' || name === 'SyntaxError' ? ` (${message})` : '';
}

/** Tokens with their ids, or for Unigram in a list with their scores. */
export function requireVocabulary(tokenizer: Settings): void {
  const model = tokenizer.record('model');
  if (!model) throw tokenizer.wrong('model', undefined, 'an object with a vocabulary');
  const vocab = model.get('vocab');
  if (typeof vocab !== 'object' || Object.keys(vocab as object).length === 0)
    throw model.wrong('vocab', vocab, 'tokens with their ids');
  const wrong = Array.isArray(vocab)
    ? vocab.find((entry) => !Array.isArray(entry) || typeof entry[0] !== 'string' || typeof entry[1] !== 'number')
    : Object.entries(vocab as object).find(([, id]) => !Number.isInteger(id) || id < 0);
  if (wrong !== undefined)
    throw model.wrong('vocab', wrong, Array.isArray(vocab) ? 'tokens with their scores' : 'tokens with their ids');
}
