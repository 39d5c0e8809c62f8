/** Named entities with labels that the caller chooses. */
import { importing } from '../base/error.js';
import type { PretrainedModel } from '../models/model.js';
import type { ExtractEntitiesOptions, LabeledEntity } from './entities.js';

export type { ExtractEntitiesOptions, LabeledEntity };

/**
 * Finds the entities of each text with the given labels, using a GLiNER model: ranges of whole words whose score (a
 * sigmoid) exceeds the threshold, in text order.
 *
 * @example
 * const [entities] = await extractEntities(gliner, 'Ada lives in London.', ['person', 'city']);
 * entities[0]; // { label, score, word, start, end }
 * @throws HeedError UNSUPPORTED if the model is not a GLiNER; TOO_LONG if the labels leave no tokens for words
 */
export async function extractEntities(
  model: PretrainedModel,
  texts: string | readonly string[],
  labels: string | readonly string[],
  options?: ExtractEntitiesOptions,
): Promise<LabeledEntity[][]> {
  const { decodeSpans } = await importing('entities', () => import('./entities.js'));
  return decodeSpans(model, texts, labels, options);
}
