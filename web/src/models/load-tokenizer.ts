/** Loads the tokenizer of a model's folder without its weights and without WebAssembly. */
import { importing } from '../base/error.js';
import type { ModelSource } from '../io/source.js';
import type { LoadTokenizerOptions, Tokenizer } from './own-tokenizer.js';

/**
 * Loads the tokenizer of a model's folder. Its tokens are those of models that `fromPretrained` returns. Reads
 * tokenizer.json, which is required, and the small files beside it (tokenizer_config.json, config.json, modules.json
 * and its settings); does not load weights or WebAssembly.
 *
 * @example
 * const tokenizer = await loadTokenizer(source);
 * tokenizer.count('the quick brown fox');
 * @throws HeedError NOT_FOUND if there is no tokenizer.json; otherwise as `fromPretrained`
 */
export async function loadTokenizer(source: ModelSource, options?: LoadTokenizerOptions): Promise<Tokenizer> {
  const own = await importing('own-tokenizer', () => import('./own-tokenizer.js'));
  return own.loadTokenizer(source, options);
}
