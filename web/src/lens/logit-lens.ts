/** The logit lens: what a model's output layer for words makes of the residual stream between the layers. */
import { invalid } from '../base/error.js';
import { optional, readOptions, sizeOrInfinity } from '../base/options.js';
import { best, softmax } from '../base/scores.js';
import type { Tensor } from '../base/tensor.js';
import { type ModelInput, type PretrainedModel, requireModel } from '../models/index.js';
import { type LensOptions, lensSchema, oneText } from './call.js';

export interface LogitLensOptions extends LensOptions {
  /** The number of words for each token. Default 5. */
  topK?: number;
}

/** A word of the vocabulary with its probability. */
export interface LensWord {
  /** Its id. */
  token: number;
  word: string;
  /** Its probability. */
  score: number;
}

const schema = { ...lensSchema, topK: optional(sizeOrInfinity, 5) };

/**
 * The logit lens (nostalgebraist 2020): the most probable words for each token after each layer, if the final norm and the output layer for words were applied there. Returns
 * [layers + 1][tokens][topK], the embeddings first, best words first. For models with such an output layer, as `predict('fill-mask')` uses it.
 *
 * @example
 * const layers = await logitLens(maskedModel, 'The capital of France is [MASK].', { topK: 3 });
 * layers.at(-1)[6][0]; // { token, word, score } for the seventh token
 * @throws HeedError UNSUPPORTED if the checkpoint has no head for masks
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
  // Also reports that there is no such head before anything is computed.
  const { activations, inputIds } = await model.predict('fill-mask', oneText(text, 'logitLens: text'), {
    ...call,
    read: sites,
  });
  if (maskToken === null)
    throw invalid('logitLens: model', 'a model with tokenizer.json and a token for masks', 'none', 'UNSUPPORTED');
  const length = inputIds[0]!.length;
  const mask = await maskId(model, maskToken);
  // The head is applied to masks, so every token is one; what the last layer makes of them is replaced.
  const masks = { inputIds: [new Array<number>(length).fill(mask)] };
  const words = new Words(model);
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
      layer.push(
        await Promise.all(hits.map(async ({ index, score }) => ({ token: index, word: await words.of(index), score }))),
      );
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

/** The texts of ids. */
class Words {
  readonly #model: PretrainedModel;
  readonly #known = new Map<number, Promise<string>>();

  constructor(model: PretrainedModel) {
    this.#model = model;
  }

  of(id: number): Promise<string> {
    const word = this.#known.get(id) ?? this.#find(id);
    this.#known.set(id, word);
    return word;
  }

  async #find(id: number): Promise<string> {
    const text = (await this.#model.decode([id])).trim();
    if (text !== '') return text;
    // Decoding leaves special tokens out.
    const { tokens } = await this.#model.tokenize({ inputIds: [[id]] });
    return tokens[0]![0]!;
  }
}
