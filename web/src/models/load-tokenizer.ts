/** The tokenizer of a model's folder, without its weights and without WebAssembly. */
import { importing } from '../base/error.js';
import type { ModelSource } from '../io/source.js';
import type { LoadTokenizerOptions, Tokenizer } from './own-tokenizer.js';

/**
 * The tokenizer of a model's folder, which has the tokens of `fromPretrained`'s models. It reads tokenizer.json and the small files beside it (tokenizer_config.json, config.json,
 * modules.json and its settings), of which only the first is required; weights and WebAssembly are not loaded.
 *
 * @example
 * const tokenizer = await loadTokenizer(source);
 * tokenizer.count('the quick brown fox');
 * @throws HeedError NOT_FOUND if there is no tokenizer.json, else as `fromPretrained`
 */
export async function loadTokenizer(source: ModelSource, options?: LoadTokenizerOptions): Promise<Tokenizer> {
  const own = await importing('own-tokenizer', () => import('./own-tokenizer.js'));
  return own.loadTokenizer(source, options);
}
