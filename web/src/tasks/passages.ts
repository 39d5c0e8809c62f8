/** Texts into passages that fit a model, at sentence ends; and vectors of texts that are longer than the model's limit. */
import { importing } from '../base/error.js';
import type { Tensor } from '../base/tensor.js';
import type { PretrainedModel } from '../models/model.js';
import type { EmbedLongOptions, Passage, PassageOptions, PassageTokenizer } from './split-passages.js';

const splitting = () => importing('split-passages', () => import('./split-passages.js'));

/**
 * Divides a text into passages of at most `maxTokens` tokens. Passages consist of whole sentences (Unicode's, by Intl.Segmenter); sentences that are too long are divided between words, and
 * words between characters. A text of white space has no passages.
 *
 * @example
 * const passages = await splitPassages(model, 'The quick fox. A brown fox.', { maxTokens: 8 });
 * const vectors = await model.embedDocument(passages.map(({ text }) => text));
 * @throws HeedError INVALID_ARGUMENT if `maxTokens` is above the model's limit, or leaves no room beside the special tokens and the prompt, or if `overlap` leaves none
 */
export async function splitPassages(
  tokenizer: PassageTokenizer,
  source: string,
  options?: PassageOptions,
): Promise<Passage[]> {
  return (await splitting()).splitPassages(tokenizer, source, options);
}

/**
 * One vector per text of any length: the mean of the vectors of its passages, weighted by their numbers of tokens; if vectors are normalized, the mean is scaled to length 1, too. A text
 * that fits has the vector of `embedDocument`.
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
