/** A loaded model's description of itself. */
import { type HeedError, invalid } from '../../base/error.js';
import type { Settings } from '../../io/settings.js';
import type { LoadedModel } from '../load.js';
import type { ModelConfig, PretrainedModel } from '../model.js';

/** The label names of a classifier; empty for other models. */
export function labelsIn(settings: Settings): string[] {
  return (settings.record('id2label')?.entries() ?? []).map(([, label]) => String(label));
}

/**
 * `dimensions`: the width of the vectors. `maxLength`: the default maximum number of tokens per text. `parameterCount`: of
 * the encoder.
 */
export function modelConfig(
  { config, settings, tokenizer, family, sentence, type, storage, unused }: LoadedModel,
  { dimensions, maxLength, parameterCount }: Pick<ModelConfig, 'dimensions' | 'maxLength' | 'parameterCount'>,
): ModelConfig {
  const { vocabSize, embedDim, numLayers, numHeads, feedForwardDim, int8 } = config;
  return {
    family: type,
    dtype: int8 ? 'q8' : 'fp32',
    storage,
    vocabSize,
    embedDim,
    dimensions,
    numLayers,
    numHeads,
    feedForwardDim,
    maxLength,
    parameterCount,
    pooling: sentence.pooling.join('+'),
    normalize: sentence.normalize,
    prompts: sentence.prompts,
    similarity: sentence.similarity,
    labels: labelsIn(settings),
    problemType: (settings.get('problem_type') as string | undefined) ?? null,
    hasTokenizer: tokenizer !== null,
    hasImageEncoder: family.images !== undefined,
    maskToken: tokenizer && (['[MASK]', '<mask>'].find((token) => tokenizer.idOf(token) !== undefined) ?? null),
    unusedTensors: unused,
  };
}

/** The text for `console.log` of a model. */
export function modelText({ config, disposed }: PretrainedModel): string {
  const { family, dtype, embedDim, numLayers, maxLength, parameterCount, labels } = config;
  const notes = [
    `${numLayers} layers of width ${embedDim}`,
    `${parameterCount.toLocaleString('en')} parameters`,
    dtype,
    `texts up to ${maxLength} tokens`,
    ...(labels.length > 0 ? [`${labels.length} labels`] : []),
    ...(disposed ? ['disposed'] : []),
  ];
  return `PretrainedModel '${family}': ${notes.join(', ')}`;
}

/** Makes the error for an image call of a model without an image encoder. */
export function withoutImages(owner: string, { family }: ModelConfig): HeedError {
  return invalid(owner, 'a model with an image encoder', `'${family}'`, 'UNSUPPORTED');
}
