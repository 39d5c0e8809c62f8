/**
 * The score of a causal language model: the logit of a token, such as "yes", less the logit of another one, such as
 * "no", after the text. As sentence-transformers' LogitScore. Imported on demand.
 */

import { invalid, invalidFile } from '../../base/error.js';
import { append } from '../../base/lists.js';
import type { RawLayers, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import { LOGIT_SCORE, modelOf } from '../families/steps.js';
import type { LoadedModel } from '../loaded-model.js';
import { Chain, type Head, makeDense, requireTied } from './task-heads.js';

/** The decoder of a causal model, if it has a matrix of its own. */
const DECODER = 'lm_head';

/**
 * Makes the head. Without a LogitScore module, the tokens are "yes" and "no"; null if the tokenizer lacks them.
 * @throws HeedError UNSUPPORTED for an encoder without logits of a next token
 */
export function logitScore(calls: RawLayers, loaded: LoadedModel): Head | null {
  const { sentence, tokenizer, config, settings, type, otherDecoder } = loaded;
  const module = sentence.steps.find((step) => step.kind === 'other' && step.type === LOGIT_SCORE);
  const tokens: number[] = [];
  if (module?.kind === 'other') {
    const { output } = modelOf(sentence.steps);
    if (module.input !== output)
      throw module.settings.unsupported(
        'module_input_name',
        `'${output}', the logits of the model`,
        `'${module.input}'`,
      );
    if (!config.causal)
      throw invalid('modules.json', 'a causal model for LogitScore, such as Qwen3', `'${type}'`, 'UNSUPPORTED');
    const last = config.vocabSize - 1;
    for (const key of ['true_token_id', 'false_token_id'])
      if (key === 'true_token_id' || module.settings.get(key) !== undefined)
        tokens.push(module.settings.count(key, undefined, 0, last));
  } else {
    const ids = ['yes', 'no'].map((token) => tokenizer?.idOf(token));
    if (!config.causal || ids.includes(undefined)) return null;
    append(tokens, ids as number[]);
  }
  requireTied(otherDecoder);
  const cap = settings.get('final_logit_softcapping');
  if (cap !== undefined) throw settings.unsupported('final_logit_softcapping', 'null', JSON.stringify(cap));
  return {
    chain: Chain.of([() => difference(tokens, logitsOf(tokens, calls, loaded))]),
    pooling: 'last',
    hasGradient: false,
  };
}

/** A layer from hidden states [N, E] to the logits of some tokens, in their order. */
function logitsOf(
  tokens: number[],
  calls: RawLayers,
  { heads, raw, config, fetchRows }: LoadedModel,
): Pick<RawTensorLayer, 'forward' | 'delete'> {
  const width = config.embedDim;
  const decoder = heads.get(`${DECODER}.weight`);
  if (decoder) {
    if (decoder.shape[1] !== width) throw invalidFile(`${DECODER}.weight`, `rows of ${width}`, `${decoder.shape[1]}`);
    const data = new Float32Array(tokens.length * width);
    tokens.forEach((id, i) => data.set(decoder.data.subarray(id * width, (id + 1) * width), i * width));
    const weight = { data, shape: [tokens.length, width] };
    return makeDense(calls, { name: DECODER, weight, bias: undefined }, 'identity');
  }
  return {
    forward({ x }: { x: RawTensor }): RawTensor {
      if (fetchRows)
        throw invalid('fromPretrained.embeddings', "'whole' for vocabulary logits", "'paged'", 'UNSUPPORTED');
      const { data, shape } = raw.wordLogits(x);
      const [count, words] = shape as [number, number];
      const picked = Array.from({ length: count }, (_, n) => tokens.map((id) => data[n * words + id]!));
      return { data: Float32Array.from(picked.flat()), shape: [count, tokens.length] };
    },
    delete: () => {},
  } as Pick<RawTensorLayer, 'forward' | 'delete'>;
}

/** The first logit, or the first less the second: [N, 1]. */
function difference(tokens: number[], logits: Pick<RawTensorLayer, 'forward' | 'delete'>): RawTensorLayer {
  const count = tokens.length;
  return {
    forward(input: { x: RawTensor }): RawTensor {
      const { data } = logits.forward(input);
      const scores = Float32Array.from({ length: data.length / count }, (_, n) =>
        count === 1 ? data[n]! : data[n * count]! - data[n * count + 1]!,
      );
      return { data: scores, shape: [scores.length, 1] };
    },
    delete: () => logits.delete(),
  } as RawTensorLayer;
}
