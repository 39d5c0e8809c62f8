/** What is checked of tokenizer.json before the library reads it, and what of the library's errors a message shows. */
import type { Settings } from './config.js';

/** What the library, or a wrong regular expression, says; other errors of the engine say nothing about the file. */
export function reasonOf(cause: unknown): string {
  const { name, message } = cause as Error;
  return name === 'Error' || name === 'SyntaxError' ? ` (${message})` : '';
}

/** Tokens with their ids; for Unigram a list of tokens with their scores. */
export function requireVocabulary(tokenizer: Settings): void {
  const model = tokenizer.record('model');
  const vocab = model?.get('vocab');
  const entries = typeof vocab === 'object' ? Object.values(vocab as object) : [];
  if (entries.length === 0 || entries.includes(null))
    throw (model ?? tokenizer).wrong(model ? 'vocab' : 'model', vocab, 'tokens with their ids');
}
