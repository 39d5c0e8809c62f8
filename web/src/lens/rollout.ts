/** Attention rollout of a text. */
import { readOptions } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import { type ModelInput, type PretrainedModel, requireModel } from '../models/index.js';
import { attentionRollout } from '../tasks/index.js';
import { type LensOptions, lensSchema, ofText, oneText } from './call.js';

/** Options of `rollout`. */
export type RolloutOptions = Pick<LensOptions, 'signal'>;

/**
 * Attention rollout (Abnar, Zuidema 2020, arXiv:2005.00928) of one text, [L,L]: the share of each input token (columns)
 * in each position (rows) after all layers. Rows sum to one. If you already have the attentions, use heed's
 * `attentionRollout`.
 *
 * @example
 * const shares = await rollout(model, 'a fox');
 * shares.shape; // [4, 4]
 */
export async function rollout(model: PretrainedModel, text: ModelInput, options?: RolloutOptions): Promise<Tensor> {
  requireModel('rollout', model, 'encode');
  const { signal } = readOptions('rollout', { signal: lensSchema.signal }, options);
  const input = oneText(text, 'rollout: text');
  const { attentions } = await model.encode(input, { outputAttentions: true, ...(signal && { signal }) });
  return ofText(attentionRollout(attentions));
}
