/** The logit lens: applies a model's MLM head to the residual stream between the layers. */
import { invalid } from '../base/error.js';
import { optional, readOptions, sizeOrInfinity } from '../base/options.js';
import { best, softmax } from '../base/scores.js';
import type { Tensor } from '../base/tensor.js';
import { type ModelInput, type PretrainedModel, requireModel } from '../models/index.js';
import { type LensOptions, lensSchema, oneText } from './call.js';

/** Options of `logitLens`. */
export interface LogitLensOptions extends LensOptions {
  /** Number of vocabulary entries returned per token. Default 5. */
  topK?: number | undefined;
}

/** A vocabulary entry with its probability. */
export interface LensWord {
  /** Token id of the entry. */
  token: number;
  /** Text of the entry. */
  word: string;
  /** Probability of the entry. */
  score: number;
}

const schema = { ...lensSchema, topK: optional(sizeOrInfinity, 5) };

/**
 * The logit lens (nostalgebraist 2020): applies the final norm and the MLM head after each layer and returns the most
 * probable vocabulary entries for each token, as [layers + 1][tokens][topK]. The first axis begins with the embeddings;
 * the last is in descending order of probability. Requires a model with an MLM head, as used by `predict('fill-mask')`.
 *
 * @example
 * const layers = await logitLens(maskedModel, 'The capital of France is [MASK].', { topK: 3 });
 * layers.at(-1)[6][0]; // { token, word, score } for the seventh token
 * @throws HeedError UNSUPPORTED if the checkpoint has no MLM head
 */
export async function logitLens(
  model: PretrainedModel,
  text: ModelInput,
  options?: LogitLensOptions,
): Promise<LensWord[][][]> {
  requireModel('logitLens', model, 'encode');
  const { signal, onProgress, topK } = readOptions('logitLens', schema, options);
  const call = signal ? { signal } : {};
  const { numLayers, maskToken } = model.config;
  const last = `layers.${numLayers - 1}`;
  const sites = ['embeddings', ...Array.from({ length: numLayers }, (_, i) => `layers.${i}.output`)];
  // Throws if there is no MLM head, before anything is computed.
  const { activations, inputIds } = await model.predict('fill-mask', oneText(text, 'logitLens: text'), {
    ...call,
    read: sites,
  });
  if (maskToken === null)
    throw invalid(
      'logitLens: model',
      'a model with tokenizer.json and a mask token',
      'a model without them',
      'UNSUPPORTED',
    );
  const length = inputIds[0]!.length;
  const mask = await maskId(model, maskToken);
  // The head is applied only to mask tokens, so use a text of mask tokens and replace the last layer's output.
  const masks = { inputIds: [new Array<number>(length).fill(mask)] };
  const words = new Map<number, Promise<string>>(); // each token is decoded once
  const result: LensWord[][][] = [];
  for (const [done, site] of sites.entries()) {
    const edit = [
      { site: `${last}.input`, set: 0 },
      { site: `${last}.output`, set: activations![site]! },
    ];
    const { logits } = await model.predict('fill-mask', masks, { ...call, edit });
    const layer: LensWord[][] = [];
    for (let i = 0; i < length; i++) {
      const hits = best(softmax(logits.at<Tensor>(i).data), Math.min(topK, logits.shape[1]!));
      for (const { index } of hits) if (!words.has(index)) words.set(index, wordOf(model, index));
      const found = hits.map(async ({ index, score }) => ({ token: index, word: (await words.get(index))!, score }));
      layer.push(await Promise.all(found));
    }
    result.push(layer);
    onProgress?.({ done: done + 1, total: sites.length });
  }
  return result;
}

async function maskId(model: PretrainedModel, maskToken: string): Promise<number> {
  const { inputIds, tokens } = await model.tokenize(maskToken);
  return inputIds[0]![tokens[0]!.indexOf(maskToken)]!;
}

async function wordOf(model: PretrainedModel, id: number): Promise<string> {
  const text = (await model.decode([id])).trim();
  if (text !== '') return text;
  // Decoding omits special tokens.
  const { tokens } = await model.tokenize({ inputIds: [[id]] });
  return tokens[0]![0]!;
}
