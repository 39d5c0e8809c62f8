/**
 * Models without an encoder: a text's vector is the mean of its tokens' rows in a table, without special tokens.
 * Supports sentence-transformers' StaticEmbedding, with the tensor `embedding.weight`, and model2vec (Tulkens, van
 * Dongen 2024), with `embeddings`. The WebAssembly module treats them as an encoder without layers.
 *
 * model2vec's vocabulary quantization stores few rows for many tokens: `mapping` [V] has each token's row, and
 * `weights` [V] a factor on it. The rows are expanded when they are read (static-table.ts, which is imported on demand).
 */
import type { SpecialTokens } from '../text/tokenizer.js';
import type { SentenceConfig } from './families/sentence-config.js';
import { isStaticIn } from './families/steps.js';

/** The `model_type` of model2vec's models. */
export const STATIC = 'model2vec';

/** The number of tokens to which model2vec cuts texts. */
const MODEL2VEC_LENGTH = 512;

/**
 * The special tokens that a folder's tokenizer keeps. Static embeddings have none besides unknown tokens, for which
 * sentence-transformers uses a row; model2vec leaves them out, and it limits the length of texts, here `maxLength`.
 */
export function specialTokensOf(sentence: SentenceConfig, isModel2vec: boolean): SpecialTokens {
  if (!isModel2vec) return isStaticIn(sentence) ? 'unknown' : 'all';
  sentence.texts.maxLength = Math.min(sentence.texts.maxLength ?? Infinity, MODEL2VEC_LENGTH);
  return 'none';
}
