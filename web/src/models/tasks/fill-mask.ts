/** Words for mask tokens. */

import { invalid } from '../../error.js';
import { optional } from '../../options.js';
import type { EditOptions } from '../../sites.js';
import type { PretrainedModel } from '../model.js';
import { best } from './similarity.js';
import { listOfTexts, softmax, type TaskOptions, taskOptions, topCount } from './task.js';

export interface Filling {
  score: number;
  /** The token's id and text. */
  token: number;
  word: string;
  /** The text with the word in place of the mask. */
  sequence: string;
}

/**
 * The `topK` (default 5) most probable words for each text's mask, best first. Every text must have exactly one mask token.
 *
 * @example
 * const [fillings] = await fillMask(maskedModel, 'The cat [MASK] on the sofa.', { topK: 3 });
 * fillings[0]; // { score, token, word, sequence }
 */
export async function fillMask(
  model: PretrainedModel,
  input: string | readonly string[],
  options?: TaskOptions & EditOptions & { topK?: number },
): Promise<Filling[][]> {
  const [{ topK }, call] = taskOptions('fillMask', model, { topK: optional(topCount, 5) }, options);
  const list = listOfTexts(input);
  const { logits, inputIds, masks } = await model.predict('fill-mask', list, call);
  const words = logits.shape[1]!;
  const fillings: Filling[][] = [];
  for (let n = 0; n < list.length; n++) {
    const rows = masks.flatMap(([text], row) => (text === n ? [row] : []));
    if (rows.length !== 1)
      throw invalid(`texts[${n}]`, `one ${model.config.maskToken ?? 'mask token'}`, `${rows.length}`);
    const row = rows[0]!;
    const hits = best(softmax(logits.data.subarray(row * words, (row + 1) * words)), Math.min(topK, words));
    const fills = hits.map(async ({ index, score }) => {
      const ids = inputIds[n]!.slice();
      ids[masks[row]![1]] = index;
      return { score, token: index, word: (await model.decode([index])).trim(), sequence: await model.decode(ids) };
    });
    fillings.push(await Promise.all(fills));
  }
  return fillings;
}
