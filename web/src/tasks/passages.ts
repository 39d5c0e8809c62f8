/** Splits texts into passages that fit a model, at sentence ends, and embeds texts longer than the model's limit. */
import { importing } from '../base/error.js';
import type { Tensor } from '../base/tensor.js';
import type { PretrainedModel } from '../models/model.js';
import type { EmbedLongOptions, Passage, PassageOptions, PassageTokenizer } from './split-passages.js';

const splitting = () => importing('split-passages', () => import('./split-passages.js'));

/**
 * Splits a text into passages of at most `maxTokens` tokens. Passages consist of whole sentences (Unicode's, by
 * Intl.Segmenter); sentences that are too long are split between words, and words between characters. A text of only
 * white space has no passages.
 *
 * @example
 * const passages = await splitPassages(model, 'The quick fox. A brown fox.', { maxTokens: 8 });
 * const vectors = await model.embedDocument(passages.map(({ text }) => text));
 * @throws HeedError INVALID_ARGUMENT if `maxTokens` exceeds the model's limit or leaves no tokens besides the special
 * tokens and the prompt, or if `overlap` leaves none
 */
export async function splitPassages(
  tokenizer: PassageTokenizer,
  source: string,
  options?: PassageOptions,
): Promise<Passage[]> {
  return (await splitting()).splitPassages(tokenizer, source, options);
}

/**
 * Returns one vector per text of any length: the mean of its passages' vectors, weighted by their numbers of tokens,
 * and scaled to unit norm if vectors are normalized. For a text that fits the model, it equals the vector of
 * `embedDocument`.
 *
 * @example
 * const vectors = await embedLong(model, ['The quick fox. A brown fox.', 'a dog'], { maxTokens: 8 });
 * vectors.passages.map((passages) => passages.length); // [2, 1]
 * @throws HeedError as `splitPassages` and `embed`
 */
export async function embedLong(
  model: PretrainedModel,
  texts: string | readonly string[],
  options?: EmbedLongOptions,
): Promise<Tensor & { readonly passages: Passage[][] }> {
  return (await splitting()).embedLong(model, texts, options);
}
