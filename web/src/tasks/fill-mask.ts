/** Predicts the tokens behind mask tokens. */
import { invalid } from '../base/error.js';
import { listOfTexts, optional, sizeOrInfinity } from '../base/options.js';
import { best, softmax } from '../base/scores.js';
import type { EditOptions } from '../base/site-options.js';
import type { PretrainedModel } from '../models/model.js';
import { type TaskOptions, taskOptions } from './task.js';

/** A word for a masked position. */
export interface Filling {
  /** The probability of the word. */
  score: number;
  /** The token's id and text. */
  token: number;
  /** The text of the token. */
  word: string;
  /** The text with the token in place of the mask. */
  sequence: string;
}

/** Implements `fillMask`, which imports this module when it is called; see api/on-demand.ts. */
export async function fillMask<T extends Filling[] | Filling[][] = Filling[]>(
  model: PretrainedModel,
  input: string | readonly string[],
  options?: TaskOptions & EditOptions & { topK?: number | undefined },
): Promise<T[]> {
  const [{ topK }, call] = taskOptions('fillMask', model, { topK: optional(sizeOrInfinity, 5) }, options);
  const list = listOfTexts(input);
  const { logits, inputIds, masks } = await model.predict('fill-mask', list, call);
  const words = logits.shape[1]!;
  const fillings: (Filling[] | Filling[][])[] = [];
  for (let n = 0; n < list.length; n++) {
    const rows = masks.flatMap(([text], row) => (text === n ? [row] : []));
    if (rows.length === 0)
      throw invalid(`texts[${n}]`, `at least one ${model.config.maskToken ?? 'mask token'}`, 'none');
    const isOne = rows.length === 1;
    const ofMask = (row: number) => {
      const hits = best(softmax(logits.data.subarray(row * words, (row + 1) * words)), Math.min(topK, words));
      const fills = hits.map(async ({ index, score }) => {
        const ids = inputIds[n]!.slice();
        ids[masks[row]![1]] = index;
        const sequence = await model.decode(ids, { skipSpecialTokens: isOne });
        return { score, token: index, word: (await model.decode([index])).trim(), sequence };
      });
      return Promise.all(fills);
    };
    const all = await Promise.all(rows.map(ofMask));
    fillings.push(isOne ? all[0]! : all);
  }
  return fillings as T[];
}
